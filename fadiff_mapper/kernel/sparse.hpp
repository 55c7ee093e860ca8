// The evaluation of mappings on a sparse design, as far as a search compares them: cycles, energy, legality.
//
// The compiled form of sparse_design.py, sparse_tiles.py, sparse_savings.py and sparse_accesses.py of model/, for eight mappings
// at once: these say what the numbers mean. Tests hold the two together bit for bit (tests/sparse/test_compiled_sparse.py). Lanes
// in which Timeloop ends on an assertion, or in which its numbers are undefined, are marked as `aborted`.

#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "counts.hpp"
#include "density.hpp"
#include "evaluate.hpp"

namespace fadiff::sparse {

// Limits of the compiled form: ranks of a format, levels, loops in all, dimensions.
constexpr int MOST_RANKS = 8, MOST_LEVELS = 16, MOST_LOOPS = 512, MOST_DIMS = 64;

// Octaves that a mapping counts as illegal which only the sparse analysis rejects. Set by hand.
constexpr double REJECTED = 1.0;

// Words per vector access -> blocks of a tile from which on compressed words are taken to fill their blocks, for densities from
// 0.1, 0.2, ..., 1.0 on: Timeloop's table.
extern const std::map<std::int64_t, std::array<int, 10>> VECTOR_THRESHOLDS;

// ---- Constants of one layer on a sparse design; names and units are those of inputs/spec/sparse_optimizations.py.

enum class RankKind { COORDINATE_PAYLOAD, RUN_LENGTH, BITMASK, UNCOMPRESSED_BITMASK, OFFSET_PAIR };

struct RankFormat {
    RankKind kind;
    std::vector<Dims> groups;     // of dimensions whose loops may be flattened into the rank; none takes any single loop
    double metadata_bits, payload_bits;
};

// The fiber tree in which a level stores a tensor, innermost rank first.
struct Representation {
    std::vector<RankFormat> ranks;
    bool inner_to_outer = false, compressed = false;
};

// Accesses to a tensor that are saved where one of its leaders is empty (target, leaders), as alternatives of which one is taken.
using ConditionedAccess = std::pair<int, std::vector<int>>;
using Choice = std::vector<ConditionedAccess>;

// Kinds of access, in the order in which energies are added up.
enum Happening { ACTUAL, GATED, SKIPPED };
constexpr int HAPPENINGS = 3;
enum Access { READ, FILL, UPDATE };
constexpr int ACCESSES = 3;
using ActionEnergies = std::array<std::array<double, ACCESSES>, HAPPENINGS>;  // pJ

struct SparseLevel {
    bool decompresses = false, compresses = false;
    double metadata_limit = 0;                    // bits that fit
    double word_bits = 1, metadata_width = 0, metadata_word_bits = 0;
    ActionEnergies data{};                        // per vector access
    ActionEnergies metadata{};                    // per access of the metadata's memory
    double decompression = 0, compression = 0, leak = 0;
    std::vector<Choice> gating, skipping, spatial_skipping;
};

struct SparseDesign {
    Layer layer;                                  // the dense layer
    Layer wires;                                  // the same, all energies 0 but those of interconnects
    std::vector<SparseLevel> levels;
    std::vector<Representation> formats;          // [L][T]; no ranks: stored plainly
    bool formatted = false, skips_instances = false, gates_computes = false, skips_computes = false;
    double computes = 0;                          // of the dense problem
    std::array<double, HAPPENINGS> compute_energy{};
    std::vector<DensityModel> models;             // [T]
    std::vector<double> operand_density;          // [T]; of single words, rounded to a millionth
    std::vector<double> block;                    // [L][T]; elements of a vector access

    const Representation* format(int level, int tensor) const {
        const Representation& own = formats[std::size_t(level) * layer.tensors + tensor];
        return own.ranks.empty() ? nullptr : &own;
    }
};

// ---- Loops, tiles and fiber trees of one mapping.

constexpr int BOX_BLOCK = 8;          // points take a multiple of so many numbers, at most MOST_DIMS

struct NestLoop {
    double bound;
    int row;                          // of Nest::points: the box that this loop and all inside it span
    std::uint8_t dim;
    bool spatial, on_y;
};

// The loops of a bound above 1, innermost first. The box of the n-th is row n + 1.
struct Nest {
    std::vector<NestLoop> loops;
    std::vector<int> first;           // [L + 1]; the first loop of every level
    int width = 0;                    // numbers of a box: D, rounded up to whole vectors
    std::vector<double> points;       // [rows][width]; row 0 is a single iteration

    const double* box(int row) const { return points.data() + std::size_t(row) * width; }
    int row_of(int level) const { return first[level + 1]; }  // of the box of a level's tile
};

// Visits the loops of a level of the mapping in one lane, innermost first: spatial ones along X, then along Y, where the
// hardware has a fan-out; then temporal ones. Only those of the given dimensions, whatever their bounds.
template <typename Visit>
inline void each_loop(const Layer& layer, const MappingPack& pack, int lane, int level, Dims across, Dims over, Visit visit) {
    const int dims = layer.dims;
    const std::size_t at = std::size_t(level) * dims;
    if (across && layer.level[level].has_fanout())
        for (const bool on_y : {false, true})
            for (int i = 0; i < dims; ++i)
                if (const int d = pack.spatial_order[(at + i) * LANES + lane]; across >> d & 1 && pack.on_y[at + d][lane] == on_y)
                    visit(NestLoop{pack.spatial(level, dims)[d][lane], 0, std::uint8_t(d), true, on_y});
    for (std::size_t i = at; over; ++i)
        if (const int d = pack.order[i * LANES + lane]; over >> d & 1) {
            over ^= Dims(1) << d;
            visit(NestLoop{pack.temporal(level, dims)[d][lane], 0, std::uint8_t(d), false, false});
        }
}

// Copies points. Blocks of a fixed size are moved faster than D numbers are.
inline void copy_points(const double* points, int width, double* into) {
    for (int i = 0; i < width; i += BOX_BLOCK) std::memcpy(into + i, points + i, BOX_BLOCK * sizeof *points);
}

// The ranks of a tile, innermost first.
struct FiberTree {
    int ranks = 0;
    double fibers[MOST_RANKS] = {};   // coordinates of a fiber
    Box below[MOST_RANKS + 1] = {};   // boxes below each rank, and of the fiber of the outermost one
};

struct StoredTile {
    bool kept = false;
    int parent = -1, child = -1;      // levels; -1: none
    const Representation* format = nullptr;
    Box box;
    FiberTree tree;

    bool compressed() const { return format && format->compressed; }
};

struct MappedTiles {
    Nest nest;
    std::vector<StoredTile> tiles;    // [L][T]
};

// The tile of a data space in a box of points [D]; rows of banded tensors alone.
Box box_of(const SparseDesign& design, int tensor, const double* points);

// Fills in loops, tiles and trees of the mapping in one lane; false where the formats do not suit the mapping, or a tensor
// is kept nowhere.
bool lay_sparse_tiles(const SparseDesign& design, const MappingPack& pack, const Tiles& dense, int lane, MappedTiles& into);

// ---- Occupancies, savings, instances.

// Units of one rank, expected or of one number of nonzeros.
template <typename Number>
struct RankUnits {
    Number metadata, payload;

    static constexpr Number RankUnits::*EACH[] = {&RankUnits::metadata, &RankUnits::payload};
};

// The occupancy of one tile, and what follows from it alone.
struct Occupancy {
    double used = 1, density = 1, nonzeros = 0;
    double metadata_units = 0;                    // of all ranks together
    double most_words = 0, most_bits = 0;         // at the largest occupancy: words, bits of metadata
    double block_ratio = 1;                       // negative: Timeloop ends on an assertion about accesses to this tile
    bool rejected = false;                        // Timeloop ends on this tile as such
    RankUnits<double> units[MOST_RANKS] = {};     // expected ones of every rank
};

// A tile as far as its occupancy depends on it.
struct TileShape {
    int tensor, level;                            // the level tells the format
    bool known_empty;                             // the parent sends no empty tiles
    Box box;
    const FiberTree* tree;
};

// Numbers of tensors that are of no fixed structure, kept as a search meets the same tiles again and again; and scratch of
// the others.
class Met {
public:
    const Occupancy& occupancy(const SparseDesign& design, const TileShape& shape);
    double empty(const SparseDesign& design, int tensor, const Box& box);  // negative where Timeloop ends on it
    const Histogram& histogram(const SparseDesign& design, int tensor, const Box& box);

    struct {
        Lanes fibers[MOST_RANKS], below[MOST_RANKS], empty[MOST_RANKS];
        RankUnits<Lanes> fewer[MOST_RANKS], more[MOST_RANKS];
    } scratch;

private:
    std::unordered_map<std::string, Occupancy> tiles_;
    std::unordered_map<std::string, double> empty_;
    std::unordered_map<std::string, Histogram> histograms_;
};

// The occupancies of the tiles of one data space at one level, see Occupancy.
struct Occupancies {
    Lanes used = 1.0, density = 1.0, nonzeros, metadata_units, most_words, most_bits, block_ratio = 1.0;
    unsigned rejected = 0;              // a bit for each lane
    int ranks = 0;                      // of the format, 0 without one
    Mask counted[MOST_RANKS];           // ranks that cost something
    RankUnits<Lanes> units[MOST_RANKS];

    void set(int lane, const Occupancy& one);
};

// Accesses to the tiles of one data space at one level that eight mappings save; a bit for each lane.
struct Savings {
    unsigned lanes = 0, gated = 0;    // in which accesses are saved, and gated, not skipped
    bool spatial = false;             // instances are skipped, in all `lanes`; the accesses of the level itself stay
    Lanes probability;
};

// Instances of one unit in use for one data space: most of them along X and Y, and how many on average.
struct Instances {
    Lanes x, y, average;
};

// The tiles of eight mappings on their way through an evaluation.
struct SparseTiles {
    std::vector<MappedTiles> mapped;         // [LANES]
    std::vector<Occupancies> occupancies;    // [L][T]
    std::vector<Savings> savings;            // [L][T]
    std::vector<unsigned> kept;              // [L][T]; lanes that keep a tile, a bit each
    std::vector<Instances> instances;        // [L + 1][T]; the arithmetic first

    // Instances of a unit in use on average, of the data space that needs most.
    Lanes units(int unit, int tensors) const {
        Lanes most = 0.0;
        for (int t = 0; t < tensors; ++t) most = larger(most, instances[std::size_t(unit) * tensors + t].average);
        return most;
    }
};

// Fills in the lanes whose mapping keeps the tile, a bit each; the numbers of others mean nothing.
void find_occupancies(const SparseDesign& design, const std::vector<MappedTiles>& mapped, Lanes words, int tensor, int level,
                      unsigned kept, Met& met, Occupancies& into);

// The probability that a tile of this box holds no nonzero; negative where Timeloop ends on it.
inline double empty_share(const SparseDesign& design, int tensor, const Box& box, Met& met) {
    const DensityModel& model = design.models[tensor];
    return model.kind == DensityModel::FIXED ? model.empty(box) : met.empty(design, tensor, box);
}

// Adds the savings of one lane; false where a target is stored nowhere at the level or further out.
bool find_savings(const SparseDesign& design, const MappingPack& pack, SparseTiles& tiles, int lane, Met& met);

// Fills in instances: all that a mapping spans, less those whose tiles are empty on average. Where the design skips some, in the
// given lanes (a bit each), adds the savings of accesses that follow. Returns the lanes in which every unit has the instances that
// are left, and one of arithmetic is.
unsigned find_instances(const SparseDesign& design, const Workspace& dense, unsigned lanes, SparseTiles& tiles, Met& met);

// ---- Accesses and cost.

// Accesses of one kind, and those of the metadata of every rank that the format has.
struct AccessCounts {
    Counts words;
    RankUnits<Counts> units[MOST_RANKS];
};

// A tile's accesses: those that happen, part 0, and, at a level that saves some, those that it saves, part 1.
struct TileAccesses {
    AccessCounts of[ACCESSES][2];
    unsigned saving;                  // lanes that save some, a bit each; without any there is no part 1
    Mask gated;                       // lanes in which the accesses of part 1 are gated; in others they are skipped
    Counts compressions, decompressions;

    int parts() const { return saving ? 2 : 1; }
    Counts busy(Access access) const {
        const Counts happening = of[access][0].words;
        return saving ? happening + where(gated, of[access][1].words) : happening;
    }
};

struct SparseCost {
    Lanes cycles, energy;             // energy without that of interconnects, pJ
    Mask legal;                       // lanes that Timeloop accepts
};

// Scratch that every evaluation fills anew.
struct CostWork {
    std::vector<TileAccesses> accesses;          // [L]; of one data space
    std::vector<Lanes> energies;                 // [L][T]; of all instances, without leakage
    std::vector<Lanes> read, written, leaking;   // [L]; words per cycle that are asked for, instances that leak

    explicit CostWork(const Layer& layer)
        : accesses(layer.levels), energies(std::size_t(layer.levels) * layer.tensors), read(layer.levels),
          written(layer.levels), leaking(layer.levels) {}
};

// The cost of mappings whose dense counts lie in `dense`.
SparseCost find_cost(const SparseDesign& design, const SparseTiles& tiles, const Workspace& dense, CostWork& work);

// Evaluates mappings; one for each thread.
class SparseEvaluator {
public:
    explicit SparseEvaluator(std::shared_ptr<const SparseDesign> design);

    // Scores of the mappings that lie in `dense.pack`, a whole one; numbers of illegal ones are 0. Tiles and counts of a
    // dense design are left in `dense`.
    void evaluate(Workspace& dense, Scores* scores);

private:
    std::shared_ptr<const SparseDesign> design_;
    Met met_;
    SparseTiles tiles_;
    CostWork cost_;
};

}  // namespace fadiff::sparse
