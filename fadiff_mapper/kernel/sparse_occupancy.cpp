#include "sparse_occupancy.hpp"

#include <algorithm>
#include <cmath>

namespace fadiff::sparse {

constexpr std::size_t MOST_MET = 1 << 18;  // tiles that are kept; a limit on memory, some 100 MB
constexpr int MOST_CASES = 2;              // numbers of nonzeros that a tile of a fixed structure may have

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

// The numbers of nonzeros that may occur, ascending, with their probabilities.
struct Histogram {
    int cases = 0;
    double nonzeros[MOST_CASES], probability[MOST_CASES];

    double sum(const double* values) const {  // in order, on which the last bit depends
        double total = probability[0] * values[0];
        for (int i = 1; i < cases; ++i) total += probability[i] * values[i];
        return total;
    }
};

static Histogram fixed_histogram(double exact) {
    Histogram result;
    const double below = std::floor(exact), above = std::ceil(exact), share = exact - below;
    result.nonzeros[0] = below, result.probability[0] = 1 - share, result.cases = 1;
    if (above > below && share != 0) result.nonzeros[1] = above, result.probability[1] = share, result.cases = 2;
    return result;
}

static double fixed_empty(double exact) { return exact < 1 ? 1 - exact : 0.0; }

// Units of one rank; see sparse/tile_occupancy.py, _rank_units.
static Units rank_units(RankKind kind, double fibers, double coordinates, double empty, double empty_below) {
    const double present = fibers * (1 - empty), filled = coordinates * (1 - empty_below);
    switch (kind) {
        case RankKind::OFFSET_PAIR: return {0, present * (coordinates + 1)};
        case RankKind::RUN_LENGTH: return {filled * present, filled * present};
        case RankKind::COORDINATE_PAYLOAD: return {std::ceil(filled) * present, std::ceil(filled) * present};
        case RankKind::BITMASK: return {present * coordinates, present * std::ceil(filled)};
        default: return {fibers * coordinates, fibers * coordinates};
    }
}

// Units of every rank for one number of nonzeros in a tile of a fixed structure.
static void units_of(const Representation& format, const FiberTree& tree, double words, double nonzeros, Units* units) {
    const double density = nonzeros / words;
    double fibers = 1, empty = fixed_empty(words * density);
    for (int rank = tree.ranks - 1; rank >= 0; --rank) {
        const double empty_below = fixed_empty(tree.below[rank] * density);
        units[rank] = tree.counts(rank) ? rank_units(format.ranks[rank].kind, fibers, tree.fibers[rank], empty, empty_below)
                                        : Units{};
        fibers *= tree.fibers[rank];
        empty = empty_below;
    }
    for (int rank = 0; rank < tree.ranks; ++rank)
        if (units[rank].metadata != 0 || units[rank].payload != 0) {  // its payloads are the data
            units[rank].payload = 0;
            break;
        }
}

// Vector accesses per tile over those of words that fill their blocks.
static void count_blocks(double block, const Histogram& whole, double words, Occupancy& result) {
    if (block <= 1 || !(result.density < 1)) return;
    const double* from = thresholds(block);
    if (!from) {
        result.aborts = true;
        return;
    }
    const int tenth = result.density >= 0.1 ? int(std::floor(result.density / 0.1)) - 1 : 0;
    if (from[tenth] <= std::floor(words / block)) return;
    double total = 0;
    for (int i = 0; i < whole.cases; ++i)
        if (whole.nonzeros[i] > 0) total += std::ceil(whole.nonzeros[i] / block) * whole.probability[i];
    const double naive = words * result.density / block;
    result.block_ratio = naive != 0 ? total / naive : std::nan("");
}

static void fixed_occupancy(const SparseDesign& design, const StoredTile& tile, int tensor, int level, bool known_empty,
                            Occupancy& result) {
    const double words = tile.words, density = design.density[tensor], exact = words * density;
    const Histogram whole = fixed_histogram(exact);
    Histogram seen = whole;
    const double least = std::floor(std::floor(exact) / words * words);
    result.used = result.block_ratio = 1, result.metadata_units = result.most_bits = 0, result.aborts = false;
    if (known_empty && least == 0) {
        result.used = 1.0 - seen.probability[0];
        for (int i = 0; i < seen.cases; ++i) seen.probability[i] = seen.probability[i] / result.used;
        seen.probability[0] = 0.0;
    }
    result.nonzeros = seen.sum(seen.nonzeros);
    result.density = result.nonzeros / words;
    result.most_words = words;
    if (!tile.format) return;
    const FiberTree& tree = tile.tree;
    Units cases[MOST_CASES][MOST_RANKS], largest[MOST_RANKS];
    for (int i = 0; i < seen.cases; ++i) units_of(*tile.format, tree, words, seen.nonzeros[i], cases[i]);
    result.most_words = std::ceil(exact);
    units_of(*tile.format, tree, words, result.most_words, largest);
    double bits = 0;
    for (int rank = 0; rank < tree.ranks; ++rank) {
        double metadata[MOST_CASES], payload[MOST_CASES];
        for (int i = 0; i < seen.cases; ++i) metadata[i] = cases[i][rank].metadata, payload[i] = cases[i][rank].payload;
        const Units units = {seen.sum(metadata), seen.sum(payload)};
        result.units[rank] = units;
        const double both = units.metadata + units.payload;
        result.metadata_units = rank ? result.metadata_units + both : both;
        const RankFormat& format = tile.format->ranks[rank];
        const double own = largest[rank].metadata * format.metadata_bits + largest[rank].payload * format.payload_bits;
        bits = rank ? bits + own : own;
    }
    result.most_bits = std::ceil(bits);
    if (tile.compressed()) count_blocks(design.layer.block[level], whole, words, result);
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

void find_occupancy(const SparseDesign& design, const MappedTiles& mapped, int tensor, int level, Met& met,
                    Occupancy& into) {
    const int tensors = design.layer.tensors;
    const StoredTile& tile = mapped.tiles[std::size_t(level) * tensors + tensor];
    const bool known_empty = tile.parent >= 0 && mapped.tiles[std::size_t(tile.parent) * tensors + tensor].format;
    if (design.density[tensor] >= 0) return fixed_occupancy(design, tile, tensor, level, known_empty, into);
    TileShape shape{tensor, level, known_empty, tile.box, tile.format ? tile.tree.ranks : 0, {}, {}};
    std::copy_n(tile.tree.fibers, shape.ranks, shape.fibers);
    std::copy_n(tile.tree.below, shape.ranks + 1, shape.below);
    into = met.occupancy(design, shape);
}

double empty_share(const SparseDesign& design, int tensor, double box, Met& met) {
    if (design.density[tensor] >= 0) return fixed_empty(box * design.density[tensor]);
    return met.empty(design, tensor, box);
}

}  // namespace fadiff::sparse
