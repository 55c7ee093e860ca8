#include "sparse.hpp"

namespace fadiff::sparse {

namespace {

// Bits of metadata that the accesses to one tile touch.
struct MetadataBits {
    bool any = false;
    Counts of[ACCESSES][2] = {};      // by part, as in TileAccesses

    MetadataBits(const SparseLevel& level, const Representation* format, const Occupancies& occupancy,
                 const TileAccesses& accesses) {
        if (level.metadata_width == 0 || !format) return;
        any = true;
        for (int access = 0; access < ACCESSES; ++access)
            for (int part = 0; part < accesses.parts(); ++part)
                for (int rank = 0; rank < occupancy.ranks; ++rank) {
                    const RankFormat& own = format->ranks[rank];
                    const RankUnits<Counts>& units = accesses.of[access][part].units[rank];
                    of[access][part] = of[access][part] + where(occupancy.counted[rank],
                        units.metadata * Count(own.metadata_bits) + units.payload * Count(own.payload_bits));
                }
    }
    Counts busy(Access access, const TileAccesses& accesses) const {
        return accesses.saving ? of[access][0] + where(accesses.gated, of[access][1]) : of[access][0];
    }
};

// pJ of an action that happens (part 0), or that is gated or skipped (part 1).
Lanes action_energy(const ActionEnergies& energies, int access, int part, Mask gated) {
    return part ? select(gated, Lanes(energies[GATED][access]), Lanes(energies[SKIPPED][access])) : Lanes(energies[ACTUAL][access]);
}

// pJ of all actions of one cluster, added up in Timeloop's order.
Lanes cluster_energy(const SparseLevel& level, double block, const MetadataBits& bits, Lanes ratio,
                     const TileAccesses& accesses) {
    Lanes energy = 0.0;
    for (int part = 0; part < accesses.parts(); ++part)
        for (int access = 0; access < ACCESSES; ++access) {
            const Counts words = accesses.of[access][part].words;
            const Lanes blocks = divided_up(words, Count(block)) * ratio;
            energy += where(words != 0, blocks * action_energy(level.data, access, part, accesses.gated));
        }
    for (int access = 0; access < ACCESSES && bits.any; ++access)
        for (int part = 0; part < accesses.parts(); ++part)
            energy += ceil(rounded(bits.of[access][part]) / level.metadata_width)
                * action_energy(level.metadata, access, part, accesses.gated);
    energy += rounded(accesses.decompressions) * level.decompression;
    return energy + rounded(accesses.compressions) * level.compression;
}

// The share of the asked bandwidth that a level can give, at most 1.
Lanes slowdown(const Layer& layer, int level, Lanes read, Lanes written) {
    Lanes result = 1.0;
    const auto limit = [&](double given, Lanes asked) {
        if (given < UNLIMITED) result = select(asked > given, smaller(result, Lanes(given) / asked), result);
    };
    limit(layer.level[level].read_bandwidth, read);
    limit(layer.level[level].write_bandwidth, written);
    limit(layer.level[level].shared_bandwidth, written + read);
    return result;
}

class CostSum {
public:
    CostSum(const SparseDesign& design, const SparseTiles& tiles, const Workspace& dense, CostWork& work)
        : design_(design), layer_(design.layer), tiles_(tiles), dense_(dense), work_(work) {}

    SparseCost total() {
        aborted_ = mask_of(false);
        const Computes computes = save_computes(design_, tiles_, aborted_);
        const Lanes units = floor(arithmetic_units(design_, tiles_, dense_));  // Timeloop counts whole ones here
        cycles_ = ceil((computes.actual + computes.gated) / units);
        for (int level = 0; level < layer_.levels; ++level)
            work_.read[level] = work_.written[level] = 0.0, work_.leaking[level] = 1.0;
        for (int t = 0; t < layer_.tensors; ++t) {
            save_accesses(design_, tiles_, dense_, t, work_.accesses.data(), aborted_);
            for (int level = 0; level < layer_.levels; ++level) add_tile(level, t);
        }
        Lanes busy = cycles_;
        for (int level = 0; level < layer_.levels; ++level)
            busy = larger(busy, ceil(cycles_ / slowdown(layer_, level, work_.read[level], work_.written[level])));
        const Lanes energy = computes.actual * design_.compute_energy[ACTUAL]
            + computes.skipped * design_.compute_energy[SKIPPED] + computes.gated * design_.compute_energy[GATED];
        return {floor(busy + layer_.network_latency), with_levels(energy, busy), ~aborted_};
    }

private:
    // Adds one tile to the bandwidths, energies and instances of its level.
    void add_tile(int level, int t) {
        const std::size_t cell = std::size_t(level) * layer_.tensors + t;
        const Occupancies& occupancy = tiles_.occupancies[cell];
        const Mask kept = mask_from(tiles_.kept[cell]);
        const Instances instances = level_instances(design_, tiles_, dense_, level, t);
        const Lanes most = instances.x * instances.y;
        work_.leaking[level] = larger(work_.leaking[level], instances.average);
        work_.energies[cell] = 0.0;
        if (!tiles_.kept[cell]) return;
        aborted_ = aborted_ | (kept & (occupancy.block_ratio < 0.0));
        const SparseLevel& hardware = design_.levels[level];
        const TileAccesses& accesses = work_.accesses[level];
        const MetadataBits bits(hardware, design_.format(level, t), occupancy, accesses);
        count_bandwidth(level, t, kept, bits, most, instances.average);
        const Lanes clusters = smaller(layer_.level[level].clusters, most);
        const Mask used = (instances.average > 0.0) & (clusters != 0.0);
        const Lanes each = cluster_energy(hardware, layer_.level[level].block, bits, occupancy.block_ratio, accesses);
        const Lanes energy = where(used, each / (most / clusters));
        const Lanes addresses = rounded(accesses.busy(layer_.spaces[t].written ? UPDATE : READ) + accesses.busy(FILL));
        work_.energies[cell] = where(kept, energy * instances.average + addresses * layer_.level[level].address * clusters);
    }

    // Words per cycle that are asked for; an instance that is used part of the time asks for less.
    void count_bandwidth(int level, int t, Mask kept, const MetadataBits& bits, Lanes most, Lanes average) {
        const TileAccesses& accesses = work_.accesses[level];
        const Mask used = kept & (average > 0.0);
        Counts read = accesses.busy(READ), written = accesses.busy(FILL) + accesses.busy(UPDATE);
        if (bits.any) {
            const Count word = Count(design_.levels[level].word_bits);
            read = read + divided_down(bits.busy(READ, accesses), word);
            written = written + divided_down(bits.busy(FILL, accesses) + bits.busy(UPDATE, accesses), word);
        }
        const Lanes spread = most / average;
        aborted_ = aborted_ | (used & ((spread == 0.0) | (cycles_ == 0.0)));
        const double scale = layer_.bandwidth_scale[std::size_t(level) * layer_.tensors + t];
        work_.read[level] += where(used, ceil(rounded(read) / spread) / cycles_ * scale);
        work_.written[level] += where(used, ceil(rounded(written) / spread) / cycles_ * scale);
    }

    // The energy of the computes and of all levels, leakage included.
    Lanes with_levels(Lanes energy, Lanes busy) const {
        for (int level = 0; level < layer_.levels; ++level) {
            const double gated = layer_.level[level].gated;
            const Lanes units = gated > 1 ? work_.leaking[layer_.level[level].gate] * gated : work_.leaking[level];
            const Lanes leakage = busy * design_.levels[level].leak * units / double(layer_.tensors);
            Lanes own = 0.0;
            for (int t = 0; t < layer_.tensors; ++t) own += work_.energies[std::size_t(level) * layer_.tensors + t] + leakage;
            energy += own;
        }
        return energy;
    }

    const SparseDesign& design_;
    const Layer& layer_;
    const SparseTiles& tiles_;
    const Workspace& dense_;
    CostWork& work_;
    Lanes cycles_;
    Mask aborted_;
};

}  // namespace

SparseCost find_cost(const SparseDesign& design, const SparseTiles& tiles, const Workspace& dense, CostWork& work) {
    return CostSum(design, tiles, dense, work).total();
}

SparseEvaluator::SparseEvaluator(std::shared_ptr<const SparseDesign> design)
    : design_(std::move(design)), cost_(design_->layer) {
    const std::size_t cells = std::size_t(design_->layer.levels) * design_->layer.tensors;
    tiles_.mapped.resize(LANES);
    for (MappedTiles& mapped : tiles_.mapped) mapped.tiles.resize(cells);
    tiles_.occupancies.resize(cells), tiles_.savings.resize(cells), tiles_.kept.resize(cells);
    tiles_.skipped.resize(cells + design_->layer.tensors);
}

// Tiles and occupancies; the lanes that Timeloop does not reject for them, a bit each.
unsigned SparseEvaluator::lay_tiles(const Workspace& dense) {
    const Layer& layer = design_->layer;
    unsigned lanes = 0;
    for (int lane = 0; lane < dense.pack.count; ++lane)
        lanes |= unsigned(lay_sparse_tiles(*design_, dense.pack, dense.tiles, lane, tiles_.mapped[lane])) << lane;
    for (int level = 0; level < layer.levels; ++level)
        for (int t = 0; t < layer.tensors; ++t) {
            const std::size_t cell = std::size_t(level) * layer.tensors + t;
            tiles_.kept[cell] = dense.pack.keep[cell].bits() & lanes;
            find_occupancies(*design_, tiles_.mapped, dense.tiles.size[cell], t, level, tiles_.kept[cell], met_,
                             tiles_.occupancies[cell]);
            lanes &= ~(tiles_.occupancies[cell].rejected & tiles_.kept[cell]);
        }
    return lanes;
}

// Lanes whose tiles fit, with their largest occupancy. A level with a size has a limit of metadata, too.
unsigned SparseEvaluator::find_fitting(unsigned lanes) const {
    const Layer& layer = design_->layer;
    for (int level = 0; level < layer.levels; ++level) {
        if (layer.level[level].usable < 0) continue;
        Lanes words = 0.0, bits = 0.0;
        for (int t = 0; t < layer.tensors; ++t) {
            const std::size_t cell = std::size_t(level) * layer.tensors + t;
            const Mask kept = mask_from(tiles_.kept[cell]);
            words += where(kept, tiles_.occupancies[cell].most_words);
            if (tiles_.occupancies[cell].ranks) bits += where(kept, tiles_.occupancies[cell].most_bits);
        }
        const Mask broken = (words > layer.level[level].usable) | (bits > design_->levels[level].metadata_limit)
            | (words < layer.level[level].least);
        lanes &= ~broken.bits();
    }
    return lanes;
}

void SparseEvaluator::evaluate(Workspace& dense, Scores* scores) {
    const Layer& layer = design_->layer;
    fadiff::lay_tiles(design_->wires, dense.pack, dense.tiles);
    unsigned possible = find_fitting(lay_tiles(dense));
    for (Savings& savings : tiles_.savings) savings.lanes = savings.gated = savings.spatial = 0;
    for (unsigned left = possible; left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        if (!find_savings(*design_, dense.pack, tiles_, lane, met_)) possible &= ~(1u << lane);
    }
    for (unsigned& kept : tiles_.kept) kept &= possible;
    possible = find_instances(*design_, dense, possible, tiles_, met_);
    for (unsigned& kept : tiles_.kept) kept &= possible;
    for (Savings& savings : tiles_.savings) savings.lanes &= possible;
    possible &= ~evaluate_tiles(design_->wires, nullptr, possible, dense, scores);
    SparseCost cost;
    Lanes accesses = 0.0;  // of the outermost level: the dense ones, as Timeloop counts them
    if (possible) {
        cost = find_cost(*design_, tiles_, dense, cost_);
        for (int t = 0; t < layer.tensors; ++t) {
            const std::size_t cell = std::size_t(layer.levels - 1) * layer.tensors + t;
            const Lanes each = dense.reads[cell] + dense.updates[cell] + dense.fills[cell];
            accesses += where(mask_from(tiles_.kept[cell]), floor(level_instances(*design_, tiles_, dense, layer.levels - 1, t).average * each));
        }
        possible &= cost.legal.bits();
    }
    for (int lane = 0; lane < dense.pack.count; ++lane) {
        Scores& own = scores[lane];
        own.legal = possible >> lane & 1;
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
