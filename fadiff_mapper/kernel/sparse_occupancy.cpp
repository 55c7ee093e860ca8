#include <algorithm>
#include <cmath>

#include "sparse.hpp"

namespace fadiff::sparse {

const std::map<std::int64_t, std::array<int, 10>> VECTOR_THRESHOLDS = {
    {2, {251, 125, 84, 63, 51, 42, 36, 32, 28, 1}}, {4, {375, 188, 125, 94, 75, 63, 54, 47, 42, 1}},
    {8, {438, 219, 146, 110, 88, 73, 63, 55, 49, 1}}, {16, {469, 235, 157, 118, 94, 79, 67, 59, 52, 1}},
    {32, {485, 243, 162, 122, 97, 81, 70, 61, 52, 1}}};

constexpr std::size_t MOST_MET = 1 << 18;  // tiles that are kept; a limit on memory, some 100 MB

// Units of one rank for some numbers of nonzeros; see model/sparse_tiles.py, rank_units.
static RankUnits<Lanes> rank_units(RankKind kind, Lanes fibers, Lanes coordinates, Lanes empty, Lanes empty_below) {
    const Lanes present = fibers * (Lanes(1.0) - empty), filled = coordinates * (Lanes(1.0) - empty_below);
    switch (kind) {
        case RankKind::OFFSET_PAIR: return {0.0, present * (coordinates + 1.0)};
        case RankKind::RUN_LENGTH: return {filled * present, filled * present};
        case RankKind::COORDINATE_PAYLOAD: return {ceil(filled) * present, ceil(filled) * present};
        case RankKind::BITMASK: return {present * coordinates, present * ceil(filled)};
        default: return {fibers * coordinates, fibers * coordinates};
    }
}

// Units of every rank: of eight tiles with a number of nonzeros each, or of one tile with eight such numbers.
static void units_of(const Representation& format, const Lanes* fibers_of, const Mask* counted, Lanes empty,
                     const Lanes* empty_below, RankUnits<Lanes>* units) {
    const int ranks = int(format.ranks.size());
    Lanes fibers = 1.0;
    for (int rank = ranks - 1; rank >= 0; --rank) {
        const RankUnits<Lanes> own = rank_units(format.ranks[rank].kind, fibers, fibers_of[rank], empty, empty_below[rank]);
        units[rank] = {where(counted[rank], own.metadata), where(counted[rank], own.payload)};
        fibers *= fibers_of[rank];
        empty = empty_below[rank];
    }
    Mask met = mask_of(false);
    for (int rank = 0; rank < ranks; ++rank) {
        const Mask first = (!met) & ((units[rank].metadata != 0.0) | (units[rank].payload != 0.0));
        units[rank].payload = where(!first, units[rank].payload);  // its payloads are the data
        met = met | first;
    }
}

// Ranks of a single coordinate cost nothing, except the first one that loops were given to.
static inline bool is_counted(const Representation& format, const FiberTree& tree, int rank) {
    return rank == (format.inner_to_outer ? 0 : int(format.ranks.size()) - 1) || tree.fibers[rank] != 1;
}

// Vector accesses per compressed tile over those of words that fill their blocks; negative where Timeloop ends. `blocks()`:
// expected blocks, each number of nonzeros rounded up.
template <typename Blocks>
static double block_ratio(double block, double words, double density, Blocks blocks) {
    if (block <= 1 || !(density < 1)) return 1;
    const auto thresholds = VECTOR_THRESHOLDS.find(std::int64_t(block));
    if (thresholds == VECTOR_THRESHOLDS.end()) return -1;
    const int tenth = density >= 0.1 ? int(std::floor(density / 0.1)) - 1 : 0;
    if (thresholds->second[tenth] <= std::floor(words / block)) return 1;
    const double naive = words * density / block;
    return naive != 0 ? blocks() / naive : std::nan("");
}

// Tensors of a fixed structure, of eight mappings at once: two numbers of nonzeros may occur.
static void fixed_occupancies(const SparseDesign& design, const Representation* format, const FiberTree* const* trees,
                              Lanes words, int tensor, int level, unsigned kept, Mask known_empty, Met& met,
                              Occupancies& into) {
    const Lanes exact = words * design.models[tensor].density, fewer = floor(exact), more = ceil(exact);
    const Lanes of_more = exact - fewer, of_fewer = Lanes(1.0) - of_more;
    // Where the parent sends no empty tiles, those that arrive hold something.
    const Mask chosen = known_empty & (floor(fewer / words * words) == 0.0);
    into.used = select(chosen, Lanes(1.0) - of_fewer, 1.0);
    const Lanes seen_fewer = where(!chosen, of_fewer), seen_more = where(of_more != 0.0, of_more / into.used);
    into.nonzeros = seen_fewer * fewer + seen_more * more;
    into.density = into.nonzeros / words;
    into.most_words = words, into.metadata_units = into.most_bits = 0.0, into.block_ratio = 1.0;
    if (!format) return;
    into.most_words = more;
    auto& [fibers, below, empty_below, of_the_fewer, of_the_more] = met.scratch;
    for (int rank = 0; rank < into.ranks; ++rank) {
        fibers[rank] = lanes_of([&](int lane) { return trees[lane]->fibers[rank]; });
        below[rank] = lanes_of([&](int lane) { return trees[lane]->below[rank].words; });
    }
    for (bool high : {false, true}) {
        const Lanes density = (high ? more : fewer) / words;
        const auto empty = [&](Lanes box) { return where(box * density < 1.0, Lanes(1.0) - box * density); };
        for (int rank = 0; rank < into.ranks; ++rank) empty_below[rank] = empty(below[rank]);
        units_of(*format, fibers, into.counted, empty(words), empty_below, high ? of_the_more : of_the_fewer);
    }
    Lanes bits = 0.0;
    for (int rank = 0; rank < into.ranks; ++rank) {
        const RankUnits<Lanes>&low = of_the_fewer[rank], &high = of_the_more[rank];
        into.units[rank] = {seen_fewer * low.metadata + seen_more * high.metadata,
                            seen_fewer * low.payload + seen_more * high.payload};
        into.metadata_units += into.units[rank].metadata + into.units[rank].payload;
        bits += high.metadata * format->ranks[rank].metadata_bits + high.payload * format->ranks[rank].payload_bits;
    }
    into.most_bits = ceil(bits);
    const double block = design.block[std::size_t(level) * design.layer.tensors + tensor];
    for (const int lane : members(format->compressed && block > 1 ? kept : 0)) {
        into.block_ratio.set(lane, block_ratio(block, words[lane], into.density[lane], [&] {
            double blocks = 0;
            if (fewer[lane] > 0) blocks += std::ceil(fewer[lane] / block) * of_fewer[lane];
            if (of_more[lane] != 0) blocks += std::ceil(more[lane] / block) * of_more[lane];
            return blocks;
        }));
    }
}

// Calls `visit(index, units)` with the units of all ranks for each number of nonzeros in a tile.
template <typename Visit>
static void each_units(const DensityModel& model, const Representation& format, const TileShape& shape,
                       const Numbers& occupancies, Visit visit) {
    const int ranks = int(format.ranks.size());
    std::vector<Numbers> empty;  // of the boxes below each rank, and of the tile
    for (int rank = 0; rank <= ranks; ++rank) {
        empty.push_back(model.empty_within(rank < ranks ? shape.tree->below[rank] : shape.box, shape.box, occupancies));
        empty.back().resize(occupancies.size() + LANES);  // so that whole lanes may be loaded at the end
    }
    Lanes fibers[MOST_RANKS], empty_below[MOST_RANKS];
    Mask counted[MOST_RANKS];
    for (int rank = 0; rank < ranks; ++rank)
        fibers[rank] = shape.tree->fibers[rank], counted[rank] = mask_of(is_counted(format, *shape.tree, rank));
    for (std::size_t first = 0; first < occupancies.size(); first += LANES) {
        RankUnits<Lanes> units[MOST_RANKS];
        for (int rank = 0; rank < ranks; ++rank) empty_below[rank] = load(&empty[rank][first]);
        units_of(format, fibers, counted, load(&empty[ranks][first]), empty_below, units);
        for (int lane = 0; lane < LANES && first + lane < occupancies.size(); ++lane) visit(first + lane, lane, units);
    }
}

// The occupancy of one tile of any distribution: the sum over all numbers of nonzeros that it may have, in ascending order.
static Occupancy expected_occupancy(const SparseDesign& design, const TileShape& shape, Met& met) {
    const DensityModel& model = design.models[shape.tensor];
    const Histogram& whole = met.histogram(design, shape.tensor, shape.box);
    const double least = model.least(shape.box);
    Histogram seen;
    for (std::size_t i = 0; i < whole.occupancies.size(); ++i)
        if (whole.occupancies[i] >= least)
            seen.occupancies.push_back(whole.occupancies[i]), seen.probabilities.push_back(whole.probabilities[i]);
    Occupancy found;
    if (shape.known_empty && least == 0) {
        found.used = 1 - seen.probabilities[0];
        for (double& probability : seen.probabilities) probability = found.used > 0 ? probability / found.used : 0;
        seen.probabilities[0] = 0;
    }
    for (std::size_t i = 0; i < seen.occupancies.size(); ++i) found.nonzeros += seen.probabilities[i] * seen.occupancies[i];
    found.density = found.nonzeros / shape.box.words;
    found.most_words = shape.box.words;
    const Representation* format = design.format(shape.level, shape.tensor);
    if (!format) return found;
    found.most_words = model.most(shape.box);
    each_units(model, *format, shape, seen.occupancies, [&](std::size_t i, int lane, const RankUnits<Lanes>* units) {
        for (std::size_t rank = 0; rank < format->ranks.size(); ++rank) {
            found.units[rank].metadata += units[rank].metadata[lane] * seen.probabilities[i];
            found.units[rank].payload += units[rank].payload[lane] * seen.probabilities[i];
        }
    });
    for (const RankUnits<double>& units : found.units) found.metadata_units += units.metadata + units.payload;
    each_units(model, *format, shape, {found.most_words}, [&](std::size_t, int, const RankUnits<Lanes>* units) {
        for (std::size_t rank = 0; rank < format->ranks.size(); ++rank)
            found.most_bits += units[rank].metadata[0] * format->ranks[rank].metadata_bits
                + units[rank].payload[0] * format->ranks[rank].payload_bits;
    });
    found.most_bits = std::ceil(found.most_bits);
    const double block = design.block[std::size_t(shape.level) * design.layer.tensors + shape.tensor];
    if (format->compressed)
        found.block_ratio = block_ratio(block, shape.box.words, found.density, [&] {
            double blocks = 0;
            for (std::size_t i = 0; i < whole.occupancies.size(); ++i)
                if (whole.occupancies[i] > 0) blocks += std::ceil(whole.occupancies[i] / block) * whole.probabilities[i];
            return blocks;
        });
    return found;
}

void Occupancies::set(int lane, const Occupancy& one) {
    used.set(lane, one.used), density.set(lane, one.density), nonzeros.set(lane, one.nonzeros);
    metadata_units.set(lane, one.metadata_units), block_ratio.set(lane, one.block_ratio);
    most_words.set(lane, one.most_words), most_bits.set(lane, one.most_bits);
    rejected |= unsigned(one.rejected) << lane;
    for (int rank = 0; rank < ranks; ++rank)
        units[rank].metadata.set(lane, one.units[rank].metadata), units[rank].payload.set(lane, one.units[rank].payload);
}

// Numbers as a key of a table.
static std::string key_of(std::initializer_list<double> numbers) {
    return {reinterpret_cast<const char*>(numbers.begin()), numbers.size() * sizeof(double)};
}

template <typename Table, typename Make>
static auto& remembered(Table& table, std::string key, Make make) {
    const auto found = table.find(key);
    if (found != table.end()) return found->second;
    auto made = make();
    if (table.size() >= MOST_MET) table.clear();
    return table.emplace(std::move(key), std::move(made)).first->second;
}

const Occupancy& Met::occupancy(const SparseDesign& design, const TileShape& shape) {
    std::string key = key_of({double(shape.tensor), double(shape.level), double(shape.known_empty), shape.box.words,
                              shape.box.rows});
    if (const Representation* format = design.format(shape.level, shape.tensor))
        for (std::size_t rank = 0; rank < format->ranks.size(); ++rank) {
            const Box& below = shape.tree->below[rank];
            key += key_of({shape.tree->fibers[rank], below.words, below.rows});
        }
    return remembered(tiles_, key, [&] {
        try {
            return expected_occupancy(design, shape, *this);
        } catch (const Aborted&) {
            Occupancy none;
            none.rejected = true;
            return none;
        }
    });
}

double Met::empty(const SparseDesign& design, int tensor, const Box& box) {
    return remembered(empty_, key_of({double(tensor), box.words, box.rows}), [&] {
        try {
            return design.models[tensor].empty(box);
        } catch (const Aborted&) {
            return -1.0;
        }
    });
}

const Histogram& Met::histogram(const SparseDesign& design, int tensor, const Box& box) {
    return remembered(histograms_, key_of({double(tensor), box.words, box.rows}),
                      [&] { return design.models[tensor].histogram(box); });
}

void find_occupancies(const SparseDesign& design, const std::vector<MappedTiles>& mapped, Lanes words, int tensor, int level,
                      unsigned kept, Met& met, Occupancies& into) {
    const std::size_t cell = std::size_t(level) * design.layer.tensors + tensor;
    const Representation* format = design.format(level, tensor);
    const FiberTree* trees[LANES];
    for (int lane = 0; lane < LANES; ++lane) trees[lane] = &mapped[lane].tiles[cell].tree;
    into.rejected = 0;
    into.ranks = format ? int(format->ranks.size()) : 0;
    for (int rank = 0; rank < into.ranks; ++rank)
        into.counted[rank] = mask_where([&](int lane) { return is_counted(*format, *trees[lane], rank); });
    const auto known_empty = [&](int lane) {
        const int parent = mapped[lane].tiles[cell].parent;
        return parent >= 0 && design.format(parent, tensor);
    };
    if (design.models[tensor].kind == DensityModel::FIXED)
        return fixed_occupancies(design, format, trees, words, tensor, level, kept, mask_where(known_empty), met, into);
    for (const int lane : members(kept)) {
        into.set(lane, met.occupancy(design, {tensor, level, known_empty(lane), mapped[lane].tiles[cell].box, trees[lane]}));
    }
}

}  // namespace fadiff::sparse
