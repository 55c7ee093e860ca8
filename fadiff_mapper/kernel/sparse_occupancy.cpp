#include "sparse_occupancy.hpp"

#include <algorithm>
#include <cmath>

namespace fadiff::sparse {

constexpr std::size_t MOST_MET = 1 << 18;  // tiles that are kept; a limit on memory, some 100 MB

// Words per vector access -> blocks of a tile from which on nonzeros fill their blocks, by tenths of the density:
// VECTOR_THRESHOLDS of sparse/level_cost.py.
static const double* thresholds(double block) {
    static const double rows[5][10] = {{251, 125, 84, 63, 51, 42, 36, 32, 28, 1}, {375, 188, 125, 94, 75, 63, 54, 47, 42, 1},
                                       {438, 219, 146, 110, 88, 73, 63, 55, 49, 1}, {469, 235, 157, 118, 94, 79, 67, 59, 52, 1},
                                       {485, 243, 162, 122, 97, 81, 70, 61, 52, 1}};
    for (int i = 0; i < 5; ++i)
        if (block == double(2 << i)) return rows[i];
    return nullptr;
}

// The two numbers of nonzeros that may occur, with their probabilities; of a whole number the second has none.
struct Histogram {
    Lanes fewer, more, of_fewer, of_more;

    explicit Histogram(Lanes exact) : fewer(floor(exact)), more(ceil(exact)) {
        const Lanes share = exact - fewer;
        of_fewer = Lanes(1.0) - share, of_more = share;
    }
    Lanes expected(Lanes of_the_fewer, Lanes of_the_more) const { return of_fewer * of_the_fewer + of_more * of_the_more; }
};

static Lanes fixed_empty(Lanes exact) { return where(exact < 1.0, Lanes(1.0) - exact); }

// Units of one rank; see sparse/tile_occupancy.py, _rank_units.
static RankUnits rank_units(RankKind kind, Lanes fibers, Lanes coordinates, Lanes empty, Lanes empty_below) {
    const Lanes present = fibers * (Lanes(1.0) - empty), filled = coordinates * (Lanes(1.0) - empty_below);
    switch (kind) {
        case RankKind::OFFSET_PAIR: return {0.0, present * (coordinates + 1.0)};
        case RankKind::RUN_LENGTH: return {filled * present, filled * present};
        case RankKind::COORDINATE_PAYLOAD: return {ceil(filled) * present, ceil(filled) * present};
        case RankKind::BITMASK: return {present * coordinates, present * ceil(filled)};
        default: return {fibers * coordinates, fibers * coordinates};
    }
}

// The fiber trees of eight tiles of one format, see FiberTree.
struct FiberTrees {
    Lanes fibers[MOST_RANKS], below[MOST_RANKS];

    FiberTrees(const FiberTree* const* trees, int ranks) {
        for (int rank = 0; rank < ranks; ++rank) {
            fibers[rank] = lanes_of([&](int lane) { return trees[lane]->fibers[rank]; });
            below[rank] = lanes_of([&](int lane) { return trees[lane]->below[rank]; });
        }
    }
};

// Units of every rank for one number of nonzeros in a tile of a fixed structure.
static void units_of(const Representation& format, const FiberTrees& trees, const Mask* counted, Lanes words, Lanes nonzeros,
                     RankUnits* units) {
    const int ranks = int(format.ranks.size());
    const Lanes density = nonzeros / words;
    Lanes fibers = 1.0, empty = fixed_empty(words * density);
    for (int rank = ranks - 1; rank >= 0; --rank) {
        const Lanes empty_below = fixed_empty(trees.below[rank] * density);
        const RankUnits own = rank_units(format.ranks[rank].kind, fibers, trees.fibers[rank], empty, empty_below);
        units[rank] = {where(counted[rank], own.metadata), where(counted[rank], own.payload)};
        fibers *= trees.fibers[rank];
        empty = empty_below;
    }
    Mask met = mask_of(false);
    for (int rank = 0; rank < ranks; ++rank) {
        const Mask first = ~met & ((units[rank].metadata != 0.0) | (units[rank].payload != 0.0));
        units[rank].payload = where(~first, units[rank].payload);  // its payloads are the data
        met = met | first;
    }
}

// Vector accesses per tile over those of words that fill their blocks, of one lane.
static void count_blocks(double block, const Histogram& whole, double words, int lane, Occupancies& into) {
    const double density = into.density[lane];
    if (!(density < 1)) return;
    const double* from = thresholds(block);
    if (!from) {
        into.aborts |= 1u << lane;
        return;
    }
    const int tenth = density >= 0.1 ? int(std::floor(density / 0.1)) - 1 : 0;
    if (from[tenth] <= std::floor(words / block)) return;
    double total = 0;
    if (whole.fewer[lane] > 0) total += std::ceil(whole.fewer[lane] / block) * whole.of_fewer[lane];
    if (whole.of_more[lane] != 0) total += std::ceil(whole.more[lane] / block) * whole.of_more[lane];
    const double naive = words * density / block;
    into.block_ratio.set(lane, naive != 0 ? total / naive : std::nan(""));
}

// Units of all ranks, and bits of the largest occupancy, that of the larger number of nonzeros.
static void count_units(const Representation& format, const FiberTrees& trees, const Histogram& seen, Lanes words,
                        Occupancies& into) {
    RankUnits fewer[MOST_RANKS], more[MOST_RANKS];
    units_of(format, trees, into.counted, words, seen.fewer, fewer);
    units_of(format, trees, into.counted, words, seen.more, more);
    Lanes bits = 0.0;
    into.metadata_units = 0.0;
    for (int rank = 0; rank < into.ranks; ++rank) {
        const RankUnits units = {seen.expected(fewer[rank].metadata, more[rank].metadata),
                                 seen.expected(fewer[rank].payload, more[rank].payload)};
        into.units[rank] = units;
        into.metadata_units += units.metadata + units.payload;
        bits += more[rank].metadata * format.ranks[rank].metadata_bits + more[rank].payload * format.ranks[rank].payload_bits;
    }
    into.most_bits = ceil(bits);
}

static void fixed_occupancies(const SparseDesign& design, const Representation* format, const FiberTree* const* trees,
                              Lanes words, int tensor, int level, unsigned kept, Mask known_empty, Occupancies& into) {
    const Lanes exact = words * design.density[tensor];
    const Histogram whole(exact);
    Histogram seen = whole;
    // Where the parent sends no empty tiles, those that arrive hold something.
    const Mask chosen = known_empty & (floor(floor(exact) / words * words) == 0.0);
    into.used = select(chosen, Lanes(1.0) - whole.of_fewer, 1.0);
    seen.of_fewer = where(~chosen, whole.of_fewer);
    seen.of_more = where(whole.of_more != 0.0, whole.of_more / into.used);
    into.nonzeros = seen.expected(seen.fewer, seen.more);
    into.density = into.nonzeros / words;
    into.most_words = words, into.metadata_units = into.most_bits = 0.0, into.block_ratio = 1.0;
    if (!format) return;
    into.most_words = ceil(exact);
    count_units(*format, FiberTrees(trees, into.ranks), seen, words, into);
    const double block = design.layer.block[level];
    for (unsigned left = kept; left && format->compressed && block > 1; left &= left - 1)
        count_blocks(block, whole, words[__builtin_ctz(left)], __builtin_ctz(left), into);
}

void Occupancies::set(int lane, const Occupancy& one) {
    used.set(lane, one.used), density.set(lane, one.density), nonzeros.set(lane, one.nonzeros);
    metadata_units.set(lane, one.metadata_units), block_ratio.set(lane, one.block_ratio);
    most_words.set(lane, one.most_words), most_bits.set(lane, one.most_bits);
    aborts |= unsigned(one.aborts) << lane, rejected |= unsigned(one.rejected) << lane;
    for (int rank = 0; rank < ranks; ++rank)
        units[rank].metadata.set(lane, one.units[rank].metadata), units[rank].payload.set(lane, one.units[rank].payload);
}

template <typename Table, typename Make>
static auto& remembered(Table& table, const double* key, std::size_t length, Make make) {
    std::string name(reinterpret_cast<const char*>(key), length * sizeof *key);
    const auto found = table.find(name);
    if (found != table.end()) return found->second;
    if (table.size() >= MOST_MET) table.clear();
    return table.emplace(std::move(name), make()).first->second;
}

const Occupancy& Met::occupancy(const SparseDesign& design, const TileShape& shape) {
    double key[2 * MOST_RANKS + 5] = {double(shape.tensor), double(shape.level), double(shape.known_empty), shape.box};
    std::copy_n(shape.fibers, shape.ranks, key + 4);
    std::copy_n(shape.below, shape.ranks + 1, key + 4 + shape.ranks);
    const std::size_t length = shape.ranks ? 5 + 2 * shape.ranks : 4;
    return remembered(tiles_, key, length, [&] { return design.occupancy_of(shape); });
}

double Met::empty(const SparseDesign& design, int tensor, double box) {
    const double key[2] = {double(tensor), box};
    return remembered(empty_, key, 2, [&] { return design.empty_of(tensor, box); });
}

void find_occupancies(const SparseDesign& design, const MappedTiles* mapped, Lanes words, int tensor, int level,
                      unsigned kept, Met& met, Occupancies& into) {
    const std::size_t tensors = design.layer.tensors, cell = level * tensors + tensor;
    const Representation* format = design.format(level, tensor);
    const FiberTree* trees[LANES];
    for (int lane = 0; lane < LANES; ++lane) trees[lane] = &mapped[lane].tiles[cell].tree;
    into.aborts = into.rejected = 0;
    into.ranks = format ? int(format->ranks.size()) : 0;
    // Ranks of a single coordinate cost nothing, except the first one that loops were given to.
    for (int rank = 0; rank < into.ranks; ++rank)
        into.counted[rank] = rank == (format->inner_to_outer ? 0 : into.ranks - 1) ? mask_of(true)
            : mask_where([&](int lane) { return trees[lane]->fibers[rank] != 1; });
    const auto known_empty = [&](int lane) {
        const int parent = mapped[lane].tiles[cell].parent;
        return parent >= 0 && design.format(parent, tensor);
    };
    if (design.density[tensor] >= 0)
        return fixed_occupancies(design, format, trees, words, tensor, level, kept, mask_where(known_empty), into);
    for (unsigned left = kept; left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        TileShape shape{tensor, level, known_empty(lane), mapped[lane].tiles[cell].box, into.ranks, {}, {}};
        std::copy_n(trees[lane]->fibers, shape.ranks, shape.fibers);
        std::copy_n(trees[lane]->below, shape.ranks + 1, shape.below);
        into.set(lane, met.occupancy(design, shape));
    }
}

double empty_share(const SparseDesign& design, int tensor, double box, Met& met) {
    if (design.density[tensor] < 0) return met.empty(design, tensor, box);
    const double exact = box * design.density[tensor];
    return exact < 1 ? 1 - exact : 0.0;
}

}  // namespace fadiff::sparse
