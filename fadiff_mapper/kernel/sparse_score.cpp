#include "sparse_score.hpp"

#include <utility>

namespace fadiff::sparse {

Evaluator::Evaluator(std::shared_ptr<const SparseDesign> design)
    : design_(std::move(design)), cost_(design_->layer) {
    const std::size_t cells = std::size_t(design_->layer.levels) * design_->layer.tensors;
    tiles_.mapped.resize(LANES);
    for (MappedTiles& mapped : tiles_.mapped) mapped.tiles.resize(cells);
    tiles_.occupancies.resize(cells), tiles_.savings.resize(cells), tiles_.kept.resize(cells);
}

// Tiles and occupancies; the lanes that Timeloop does not reject for them, a bit each.
unsigned Evaluator::lay_tiles(const Workspace& dense) {
    const Layer& layer = design_->layer;
    unsigned lanes = 0;
    for (int lane = 0; lane < dense.pack.count; ++lane)
        lanes |= unsigned(lay_sparse_tiles(*design_, dense.pack, dense.tiles, lane, tiles_.mapped[lane])) << lane;
    for (int level = 0; level < layer.levels; ++level)
        for (int t = 0; t < layer.tensors; ++t) {
            const std::size_t cell = std::size_t(level) * layer.tensors + t;
            tiles_.kept[cell] = dense.pack.keep[cell].bits() & lanes;
            find_occupancies(*design_, tiles_.mapped.data(), dense.tiles.size[cell], t, level, tiles_.kept[cell], met_,
                             tiles_.occupancies[cell]);
            lanes &= ~(tiles_.occupancies[cell].rejected & tiles_.kept[cell]);
        }
    return lanes;
}

// Lanes whose tiles fit, with their largest occupancy. A level with a size has a limit of metadata, too.
unsigned Evaluator::find_fitting(unsigned lanes) const {
    const Layer& layer = design_->layer;
    for (int level = 0; level < layer.levels; ++level) {
        if (layer.usable[level] < 0) continue;
        Lanes words = 0.0, bits = 0.0;
        for (int t = 0; t < layer.tensors; ++t) {
            const std::size_t cell = std::size_t(level) * layer.tensors + t;
            const Mask kept = mask_from(tiles_.kept[cell]);
            words += where(kept, tiles_.occupancies[cell].most_words);
            if (tiles_.occupancies[cell].ranks) bits += where(kept, tiles_.occupancies[cell].most_bits);
        }
        const Mask broken = (words > layer.usable[level]) | (bits > design_->levels[level].metadata_limit)
            | (words < layer.least[level]);
        lanes &= ~broken.bits();
    }
    return lanes;
}

// Accesses of the outermost level: the dense ones, as Timeloop counts them.
Lanes Evaluator::outermost_accesses(const Workspace& dense) const {
    const Layer& layer = design_->layer;
    const Lanes instances = dense.tiles.instances(layer.levels - 1);
    Lanes accesses = 0.0;
    for (int t = 0; t < layer.tensors; ++t) {
        const std::size_t cell = std::size_t(layer.levels - 1) * layer.tensors + t;
        const Lanes each = dense.reads[cell] + dense.updates[cell] + dense.fills[cell];
        accesses += where(mask_from(tiles_.kept[cell]), floor(instances * tiles_.occupancies[cell].used * each));
    }
    return accesses;
}

// Accesses that are saved, and the lanes that have them found; a bit each.
unsigned Evaluator::find_savings(const MappingPack& pack, unsigned lanes) {
    for (Savings& savings : tiles_.savings) savings.lanes = savings.gated = 0;
    unsigned found = 0;
    for (unsigned left = lanes; left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        const bool all = sparse::find_savings(*design_, pack, tiles_.mapped[lane], tiles_.occupancies, lane, met_, tiles_.savings);
        found |= unsigned(all) << lane;
    }
    for (unsigned& kept : tiles_.kept) kept &= found;
    for (Savings& savings : tiles_.savings) savings.lanes &= found;
    return found;
}

void Evaluator::evaluate(Workspace& dense, Scores* scores) {
    fadiff::lay_tiles(design_->wires, dense.pack, dense.tiles);
    unsigned possible = find_savings(dense.pack, find_fitting(lay_tiles(dense)));
    possible &= ~evaluate_tiles(design_->wires, nullptr, possible, dense, scores);
    SparseCost cost;
    Lanes accesses;
    if (possible) cost = find_cost(*design_, tiles_, dense, cost_), accesses = outermost_accesses(dense);
    const unsigned legal = possible ? possible & cost.legal.bits() : 0;
    for (int lane = 0; lane < dense.pack.count; ++lane) {
        Scores& own = scores[lane];
        own.legal = legal >> lane & 1;
        if (own.legal) {
            own.cycles = cost.cycles[lane], own.last_level_accesses = accesses[lane], own.excess = 0;
            own.energy = cost.energy[lane] + own.energy;  // so far that of the interconnects
        } else {
            own.cycles = own.energy = own.last_level_accesses = 0;
            own.excess += REJECTED;
        }
    }
}

}  // namespace fadiff::sparse
