#include "evaluator.hpp"

#include "residual_walk.hpp"
#include "sparse.hpp"

namespace fadiff {

Evaluator::Evaluator(const Layer& layer, bool residual, std::shared_ptr<const sparse::SparseDesign> design)
    : work(layer, residual || design, residual), layer_(layer),
      sparse_(design ? std::make_unique<sparse::SparseEvaluator>(std::move(design)) : nullptr) {}

Evaluator::~Evaluator() = default;

ScoredLayer::~ScoredLayer() { delete idle.load(); }

void Evaluator::evaluate(const RoomPack* room, unsigned wanted, Scores* scores, Scores* unrounded) {
    if (sparse_) sparse_->evaluate(work, scores);
    else if (work.residual) evaluate_residuals(layer_, room, work, scores, unrounded);
    else fadiff::evaluate(layer_, room, wanted, work, scores);
}

void score(ScoredLayer& layer, std::shared_ptr<const sparse::SparseDesign> design, const Batch& batch, const RoomColumns& rooms,
           std::size_t first, std::size_t last, bool all, bool unrounded, double* out) {
    const bool plain = !design && !batch.residual();
    std::unique_ptr<Evaluator> own(plain ? layer.idle.exchange(nullptr) : nullptr);
    if (!own) own = std::make_unique<Evaluator>(layer, batch.residual(), std::move(design));
    const std::size_t cells = std::size_t(layer.levels) * layer.tensors, size = batch.size;
    Room one{std::vector<double>(layer.levels), std::vector<std::uint8_t>(cells)};
    RoomPack room(layer);
    Scores scores[LANES], without_rounding[LANES];
    NearColumns columns(layer, batch, first, last);
    for (std::size_t column = first; column < last; column += LANES) {
        const int count = int(std::min<std::size_t>(LANES, last - column));
        const auto [near, within] = columns.at(column);
        pack_columns(layer, near, within, count, own->work.pack);
        for (int i = 0; rooms.words && i < count; ++i) {
            for (int level = 0; level < layer.levels; ++level) one.words[level] = rooms.words[level * size + column + i];
            for (std::size_t cell = 0; cell < cells; ++cell) one.counted[cell] = rooms.counted[cell * size + column + i];
            lay_room(one, i, room);
        }
        own->evaluate(rooms.words ? &room : nullptr, all ? ALL_LANES : 0, scores, without_rounding);
        for (int i = 0; i < count; ++i) {
            const Scores& found = unrounded && batch.residual() ? without_rounding[i] : scores[i];
            double* at = out + column + i;
            at[0] = found.cycles, at[size] = found.energy, at[2 * size] = found.last_level_accesses;
            at[3 * size] = found.excess, at[4 * size] = found.legal;
        }
    }
    if (plain) delete layer.idle.exchange(own.release());
}

BatchTraffic traffic_of(const Layer& layer, const Batch& batch, bool with_hops) {
    const std::size_t size = batch.size, cells = std::size_t(layer.levels) * layer.tensors;
    BatchTraffic found{std::vector<double>(cells * size), std::vector<double>(cells * size), std::vector<double>(size),
                       std::vector<Tally>(cells * size, Tally{{1, 1, 0, 0}})};
    if (batch.residual()) {
        for (std::size_t column = 0; column < size; ++column) {
            ResidualWalk walk(layer, mapping_of(layer, batch, column), with_hops);
            found.calls[column] = walk.calls();
            if (!walk.walkable()) continue;
            ResidualTraffic own = walk.run();
            for (std::size_t cell = 0; cell < cells; ++cell) {
                if (!own.tally[cell].empty()) found.tallies[cell * size + column] = std::move(own.tally[cell]);
                found.links[cell * size + column] = own.links[cell];
            }
        }
        return found;
    }
    Workspace work(layer);
    const Traffic& own = work.traffic;
    for (std::size_t column = 0; column < size; column += LANES) {
        const int count = int(std::min<std::size_t>(LANES, size - column));
        pack_columns(layer, batch, column, count, work.pack);
        lay_tiles(layer, work.pack, work.tiles);
        count_demand(layer, work.pack, work.tiles, with_hops, work.traffic);
        count_delivery(layer, work.pack, work.tiles, with_hops, ((1u << count) - 1) & lanes_countable(layer, work.tiles),
                       work.traffic);
        for (std::size_t cell = 0; cell < cells; ++cell)
            for (int i = 0; i < count; ++i) {
                const std::size_t at = cell * size + column + i;
                if (own.counted[cell] >> i & 1) found.tallies[at] = own.tally[cell * LANES + i];
                else found.tallies[at] = {{own.multicast[cell][i], own.scatter[cell][i], own.words[cell][i], 0}};
                found.wanted[at] = own.wanted[cell][i];
                found.links[at] = own.links[cell][i];
            }
    }
    return found;
}

}  // namespace fadiff
