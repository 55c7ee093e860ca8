#include "group_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "loop_cuts.hpp"

namespace fadiff {
inline namespace FADIFF_LANES {

static const double NEVER = std::numeric_limits<double>::infinity();

// The most steps of a loop in a box over its least, below which the order is chosen. Set by hand.
static const double WIDE = 4.5;

// The part by which a price must rise to count as higher: a guard against rounding.
static const double HIGHER = 1e-9;

namespace {

// One residency of an operand from outside.
struct Choice {
    Lanes reads;    // words from outside over all steps
    Lanes held;     // words that lie there
    bool stays;
};

struct Operand {
    int tensor;
    std::vector<Choice> choices;
};

// Energy and cycles of a layer, by the share of its units that are at work.
using Costs = std::array<std::pair<Lanes, Lanes>, SHARES>;

// The shared loops as all layers see them, in the smallest and in the largest tiles, [layer][loop].
struct Cuts {
    std::vector<LoopCut> small, large;
    int layers = 0, loops = 0;
    int used = LANES;   // boxes; further lanes repeat the last one

    void lay_out(int number_of_layers, int number_of_loops) {
        layers = number_of_layers, loops = number_of_loops;
        small.resize(std::size_t(layers) * loops);
        large.resize(small.size());
    }
    const LoopCut* smallest(int layer) const { return small.data() + std::size_t(layer) * loops; }
    const LoopCut* largest(int layer) const { return large.data() + std::size_t(layer) * loops; }
};

}  // namespace

// The residencies of an operand: in no step, or from one step to the next along more and more of the loops whose steps share
// words of it, through its window or as they compute the same points, the innermost first. In an open order each of the loops may
// be the innermost one. `brought`: whether an earlier layer may have brought it, in whose room it is there; `only`: the
// number of the only one to list, from 1 on, or 0; `last`: the smallest cuts of the last layer.
static void list_choices(const FusedLayer& layer, int tensor, const LoopCut* small, const LoopCut* large,
                         const LoopCut* last, int loops, bool open, bool brought, int only, std::vector<Choice>& found) {
    found.clear();
    int number = 0;
    const auto listed = [&] { return ++number == only || !only; };
    const auto room = [&](Loops64 across) { return held(layer, tensor, small, loops, across, nullptr, last); };
    if (brought && listed()) found.push_back({0, 0, true});     // in the room of the layer that brought it
    if (listed()) found.push_back({fetched(layer, tensor, large, loops, 0, false), 0, false});
    if (open) {
        if (listed()) found.push_back({fetched(layer, tensor, large, loops, ~Loops64(0), false), room(0), true});
        return;
    }
    Loops64 across = 0;
    for (int loop = loops - 1; loop >= 0; --loop) {
        const int dim = large[loop].dim;
        if (dim >= 0 && layer.moves(tensor, dim) && layer.rank_of(tensor, dim).terms.size() < 2 && !large[loop].again) continue;
        across |= Loops64(1) << loop;
        if (listed()) found.push_back({fetched(layer, tensor, large, loops, across, false), room(across), true});
    }
}

// The operands of a layer from outside, with the residencies that they may have; words that those decided take in the home
// are added to `taken`.
static void list_operands(const FusedLayer& layer, const LoopCut* small, const LoopCut* large, const LoopCut* last, int loops,
                          bool open, Spaces brought, Spaces lasting, const std::array<std::uint8_t, 2>& decided, Lanes& taken,
                          std::vector<Operand>& found) {
    std::size_t count = 0;
    for (int t = 0; t < int(layer.spaces.size()); ++t) {
        if (layer.spaces[t].written || (layer.handed | lasting) >> t & 1) continue;
        if (found.size() == count) found.emplace_back();
        Operand& operand = found[count];
        const int own = count < decided.size() ? decided[count] : 0;
        const bool shares = brought >> t & 1;
        ++count;
        operand.tensor = t;
        list_choices(layer, t, small, large, last, loops, open, shares, own, operand.choices);
        if (!own) continue;
        Choice& only = operand.choices[0];
        if (!shares || own > 1) taken += only.held;     // what was brought lies there for some layers
        only.held = 0;
    }
    found.resize(count);
}

// Whether a loop leaves a layer one tile of one size. Where padding leaves steps without work, a single step may count as least.
static Mask in_one_tile(const LoopCut& small, const LoopCut& large, const LoopCut& last_large) {
    return (small.steps == 1.0) & (large.steps == 1.0) & (small.first == large.first)
        & ((large.uneven == 0.0) | (last_large.steps == 1.0));
}

// Finds for each share of the units at work how many rows, columns, summands and groups lie side by side at least.
static void find_side_by_side(ProductUnits& units) {
    for (std::size_t share = 0; share < SHARES; ++share)
        for (int kind = 0; kind < 4; ++kind) {
            const double whole = units.whole[kind];
            double& least = units.side_by_side[share][kind];
            least = std::ceil((std::floor(units.most * AT_WORK[share + 1]) + 1) / units.beside[kind]);
            while (least < whole && !divides(least, whole)) ++least;
            if (whole && least > whole) least = NEVER;
        }
}

namespace {

// A tile of a product; its operands hold `one` and `other` words, of one group, where they come in anew in each step.
struct ProductTile {
    bool first = true, second = true;                       // which operands come in anew
    std::array<Lanes, 2> under;                             // points along each window of `Product::slides`
    std::array<Lanes, KINDS> lines{1, 1, 1, 1, 1};          // points, by kind
    Lanes steps = 1;                                        // in parts
    Lanes one, other;

    ProductTile(const Product& product, const LoopCut* cuts, int loops) {
        const FusedLayer& layer = product.layer;
        Box extents;
        Lanes* tile = extents.lanes;
        std::copy(layer.bounds.begin(), layer.bounds.end(), tile);
        for (int loop = 0; loop < loops; ++loop) {
            const LoopCut& cut = cuts[loop];    // of whose steps a bound may know one alone
            if (cut.dim >= 0) tile[cut.dim] = larger(cut.first, cut.later);
            steps *= cut.dim < 0 ? cut.steps : cut.points / tile[cut.dim];
        }
        for (int dim = 0; dim < layer.dims(); ++dim) lines[product.kind[dim]] *= tile[dim];
        const auto words = [&](int own) {
            return distinct_words(layer.spaces[product.operands[own]], tile) / lines[GROUPS];
        };
        one = words(0);
        other = words(1);
        for (std::size_t slide = 0; slide < std::min(product.slides.size(), under.size()); ++slide)
            under[slide] = tile[product.slides[slide].dim];
    }

    // The same tile where only one operand or the other comes in anew, or both.
    ProductTile where_new(bool first, bool second) const {
        ProductTile tile = *this;
        tile.first = first, tile.second = second;
        if (!first) tile.one = 0;
        if (!second) tile.other = 0;
        return tile;
    }
};

}  // namespace

// The divisors of a whole number, the smallest one first.
static std::vector<double> divisors(double number) {
    std::vector<double> found, rest;
    for (double one = 1; one * one <= number; ++one) {
        if (!divides(one, number)) continue;
        found.push_back(one);
        if (one * one < number) rest.push_back(number / one);
    }
    found.insert(found.end(), rest.rbegin(), rest.rend());
    return found;
}

// The most points side by side, at most `along`, as many as divide a tile of some size in a range.
static double side_by_side_at_most(double least, double most, double along) {
    double part = std::min(along, most);
    for (double times = std::ceil(least / part); part > 1 && times * part > most; times = std::ceil(least / part))
        part = std::max(std::floor(most / times), 1.0);     // the most of which so many are not too many
    return part;
}

// One over the units, or instances of a level, in use at most, on average over a layer's work: along each kind of dimension
// at most so many, as many as divide a tile, in full ones and in the remaining one. Dimensions of one kind that loops cut
// together, or in tiles of different sizes, count as without limit.
static Lanes inverse_use(const Product& product, const std::array<double, KINDS>& most, const FusedLayer& last,
                         const LoopCut* small, const LoopCut* large, const LoopCut* last_large, int loops) {
    const FusedLayer& layer = product.layer;
    Lanes result = 1;
    for (int kind = 0; kind < KINDS; ++kind) {
        const double along = most[kind];
        double bound = 1;
        int dims = 0, cut = -1, cutting = 0;
        for (int dim = 0; dim < layer.dims(); ++dim)
            if (product.kind[dim] == kind && layer.bounds[dim] > 1) {
                bound *= layer.bounds[dim], ++dims;
                for (int loop = 0; loop < loops; ++loop)
                    if (large[loop].dim == dim) cut = loop, ++cutting;
            }
        if (!cutting) {
            result *= 1 / side_by_side_at_most(bound, bound, along);
        } else if (dims > 1 || cutting > 1) {
            result *= 1 / along;
        } else {
            const LoopCut& own = large[cut];
            const Mask alike = (own.first == own.usual()) & (own.uneven == 0.0);
            const double whole = last.bounds[last_large[cut].dim];
            result *= lanes_of([&](int lane) {
                if (!alike[lane]) return 1 / along;
                const double least = small[cut].first[lane], most = own.first[lane];
                const double points = std::max(own.points[lane], small[cut].points[lane]);  // with those computed again
                const double full = std::min(std::floor(whole / last_large[cut].largest()[lane]) * least, points);
                const double left = points - full;
                const double rest = left > 0 && least == most ? side_by_side_at_most(left, left, along) : along;
                return (full / side_by_side_at_most(least, most, along) + left / rest) / points;
            });
        }
    }
    return result;
}

namespace {

// The words of a product's operands that come in anew in each step, in one group of one tile.
struct Stream {
    const ProductTile& tile;        // the largest one
    std::array<Lanes, 2> brought;   // words of the operands where all summands of sums are in the home together, at least
    std::array<Lanes, 3> units;     // rows, columns and summands that are in the home at once, at least
    const ProductUnits& work;
    Lanes room;                     // of one group
    double unfinished;              // sums of one group that fit inside the home
    bool windows[2];                // whether windows slide over an operand

    // Whether blocks of some lines divide all of them, and points side by side divide a block.
    bool in_blocks(int kind, double lines, double blocks, int lane) const {
        if (!divides(blocks, lines)) return false;
        const double block = lines / blocks, most = std::min(work.along[kind], block);
        double part = units[kind][lane];
        while (part <= most && !divides(part, block)) ++part;
        return part <= most;
    }

    // Unfinished sums that fit beside each other in a block of so many rows and columns, 0: any number. Instances that
    // hold them lie along lines of the block.
    double sums_at_most(double rows, double columns) const {
        double instances = 1;
        for (const auto& [lines, most] : {std::pair(rows, work.holders[ROWS]), std::pair(columns, work.holders[COLUMNS])})
            instances *= lines ? side_by_side_at_most(lines, lines, most) : most;
        return std::min(unfinished, work.holder * instances);
    }

    // The same for each line in a block of so many lines of one operand, and any number of the other one's.
    double sums_of(int operand, double lines) const {
        return (operand ? sums_at_most(0, lines) : sums_at_most(lines, 0)) / lines;
    }

    // A block of one operand stays, beside as many rows or columns of the other one as lie side by side. Where windows
    // slide over it, it stays in steps along the window, too.
    Lanes block(int stays) const {
        const Lanes& own = stays ? tile.other : tile.one;
        const Lanes& its = stays ? tile.one : tile.other;
        Lanes line = own / tile.lines[stays], other = its / tile.lines[1 - stays];
        if (windows[stays]) line = smaller(line, tile.lines[2]), other = smaller(other, tile.lines[2]);
        const Lanes left = room - other * units[1 - stays];
        return select(left >= line * units[stays], brought[stays] +
                      brought[1 - stays] * larger(line * tile.lines[stays] / larger(left, 1.0), 1.0), NEVER);
    }

    // Sums of a block of rows and columns at a time, as far as they fit, and as far as the operands do in the home.
    Lanes summed() const {
        const auto& [high, wide, deep] = units;
        const Lanes& rows = tile.lines[ROWS];
        const Lanes& columns = tile.lines[COLUMNS];
        const Lanes longer = tile.one * columns, shorter = tile.other * rows;
        const Lanes square = select(shorter > 0, where(longer > 0, sqrt(unfinished * longer / shorter)), NEVER);
        const Lanes width = smaller(larger(larger(square, unfinished / rows), wide), smaller(columns, unfinished / high));
        Lanes words = longer / width + shorter / smaller(unfinished / width, rows);
        if (tile.first && tile.second) {
            const Lanes both = room / deep;     // rows and columns together
            const Lanes part = 1 / (1 + sqrt(shorter / longer));
            const Lanes broad = smaller(larger(larger(both * part, both - rows), wide), smaller(columns, both - high));
            words = larger(words, longer / broad + shorter / smaller(both - broad, rows));
        }
        return words;
    }

    // The same where the rows and columns of tiles in a box are divided into whole numbers of blocks.
    double summed_whole(const ProductTile& least, int lane) const {
        const double high = units[0][lane], wide = units[1][lane], space = room[lane] / units[2][lane];
        const double most_rows = tile.lines[0][lane], rows = std::min(least.lines[0][lane], most_rows);
        const double most_columns = tile.lines[1][lane], columns = std::min(least.lines[1][lane], most_columns);
        const std::vector<double> of_rows = rows == most_rows ? divisors(rows) : std::vector<double>{};
        double fewest = NEVER;
        for (double across = 1; across <= most_columns / wide && tile.one[lane] * across < fewest; ++across) {
            if (columns == most_columns && !in_blocks(COLUMNS, columns, across, lane)) continue;
            const double width = columns / across, whole_width = columns == most_columns ? width : 0;
            const double left = tile.second ? space - width : space;
            const double most = std::min(sums_at_most(0, whole_width) / width, tile.first ? left : left < 0 ? 0 : NEVER);
            if (!(most >= high)) continue;
            double down = std::max(std::ceil(rows / most * (1 - HIGHER)), 1.0);
            if (rows == most_rows) {
                const auto whole = std::find_if(of_rows.begin(), of_rows.end(), [&](double blocks) {
                    return blocks >= down && in_blocks(ROWS, rows, blocks, lane)
                        && rows / blocks * width <= sums_at_most(rows / blocks, whole_width);
                });
                if (whole == of_rows.end()) continue;
                down = *whole;
            }
            if (most_rows / down >= high) fewest = std::min(fewest, tile.one[lane] * across + tile.other[lane] * down);
        }
        return fewest;
    }

    // Words of one summand under two windows that slide over a tile of one size, where all summands and taps of sums are in
    // the home: the tile falls into strips along the window of the innermost loop, each of which comes in anew.
    double strips(const Product& product, const ProductTile& least, int lane) const {
        const bool passes = product.slider ? tile.first : tile.second;
        const double space = room[lane] / least.lines[SUMMANDS][lane], lines = passes ? units[1 - product.slider][lane] : 0;
        double fewest = NEVER;
        for (int along = 0; along < 2; ++along) {
            const Slide &one = product.slides[along], &two = product.slides[1 - along];
            const double high = tile.under[along][lane], wide = tile.under[1 - along][lane];
            for (const double columns : divisors(wide)) {
                const double across = two.step * columns + two.halo;
                if (one.taps * (lines * two.taps + across) <= space)
                    fewest = std::min(fewest, (one.step * high + one.halo) * across * wide / columns);
            }
        }
        return fewest;
    }

    // The least words of both operands where summands or taps of sums are outside the home, and blocks of points under two
    // windows and of lines of the other operand divide a tile of one size. A strip of a window of taps and points comes in
    // anew for each place along the other window. Where all summands are in the home, a block along the innermost loop may
    // begin with the words with which the one before ended.
    double summed_strips(const Product& product, const ProductTile& least, int lane) const {
        const int moved = product.slider, fixed = 1 - moved;
        const double own = tile.lines[SUMMANDS][lane], other = (moved ? tile.one : tile.other)[lane];
        const double lines = tile.lines[fixed][lane], summands = least.lines[SUMMANDS][lane];
        const std::vector<double> widths = divisors(lines);
        double fewest = NEVER;
        for (int along = 0; along < 2; ++along) {
            const Slide &one = product.slides[along], &two = product.slides[1 - along];
            const double high = tile.under[along][lane], wide = tile.under[1 - along][lane];
            const double more = tile.lines[moved][lane] / (high * wide);    // points under no windows
            const double union_of = own * more * (one.step * high + one.halo) * (two.step * wide + two.halo);
            const std::vector<double> downs = divisors(high), acrosses = divisors(wide);
            const std::vector<double> taps_of_one = divisors(one.taps), taps_of_two = divisors(two.taps);
            // words of one summand in all blocks of so many rows and columns, beside so many lines of the other operand,
            // with the taps in the home that need the fewest
            const auto in_strips = [&](double rows, double columns, double passing) {
                double fewest = NEVER;
                for (const double taps : taps_of_one)
                    for (const double others : taps_of_two) {
                        const double down = std::min(one.step, taps) * (rows - 1) + taps;
                        const double across = std::min(two.step, others) * (columns - 1) + others;
                        const double held = down * across + passing * taps * others;
                        if (held * units[SUMMANDS][lane] > room[lane]) break;
                        const bool whole = taps * others < one.taps * two.taps && held * summands <= room[lane];
                        const double strip = whole
                            ? std::max(one.step * high + one.halo, (one.taps - taps) * high / rows + down)
                            : (one.step * rows + one.halo) * high / rows;
                        fewest = std::min(fewest, strip * across * (wide / columns) * (two.taps / others));
                    }
                return fewest;
            };
            for (auto width = widths.rbegin(); width != widths.rend(); ++width) {
                const double times = lines / *width, sums = sums_of(fixed, *width);
                if (union_of * times + other >= fewest) break;
                if (!in_blocks(fixed, lines, times, lane)) continue;
                const double passing = (fixed ? tile.second : tile.first) ? *width : 0;
                for (const double rows : downs)
                    for (const double columns : acrosses) {
                        if (rows * columns > sums) break;
                        const double blocks = high / rows * (wide / columns);
                        if (union_of * times + other * blocks < fewest)
                            fewest = std::min(fewest, own * more * in_strips(rows, columns, passing) * times + other * blocks);
                    }
            }
        }
        return fewest;
    }

    // The same where windows slide over one operand, and whole numbers of blocks divide the lines of the other one; 0 in
    // a box of several numbers of lines. Unless a block has all summands, its points come in anew, under all taps. `uncut`:
    // whether blocks divide the points, too.
    double summed_windows(const Product& product, const ProductTile& least, bool uncut, int lane) const {
        const int moved = product.slider, fixed = 1 - moved;
        const double own = (moved ? tile.other : tile.one)[lane], other = (moved ? tile.one : tile.other)[lane];
        const double points = tile.lines[moved][lane], lines = tile.lines[fixed][lane];
        const double space = room[lane] / units[SUMMANDS][lane], whole = room[lane] / least.lines[SUMMANDS][lane];
        const bool passes = fixed ? tile.second : tile.first;
        const Slide &one = product.slides[0], &two = product.slides.back();
        const bool plane = product.slides.size() > 1;
        const double high = tile.under[0][lane], wide = plane ? tile.under[1][lane] : 1;
        const double stride = plane ? two.step : 1, halo = plane ? two.halo : 0, taps = one.taps * (plane ? two.taps : 1);
        // words of one summand for each point of a block, under all taps, in the best shape; `slides`: whether both windows do
        const auto under = [&](double block, bool slides) {
            block = std::min(block, high * wide);
            const double most = std::min(high, block), fewest = std::min(std::max(block / wide, 1.0), most);
            const double along = one.step * halo > 0 ? std::sqrt(stride * one.halo * block / (one.step * halo)) : most;
            const double rows = std::min(std::max(along, fewest), most);
            double words = (one.step * rows + one.halo) * (stride * block / rows + halo);
            if (!slides)    // one of the windows slides, the other one comes in by taps
                words = std::max(words, std::min(
                    two.visits * (block * one.step + one.halo * std::max(block / high, 1.0)),
                    one.visits * (block * stride + halo * std::max(block / wide, 1.0))));
            return words / block;
        };
        if (least.lines[fixed][lane] < lines) return 0;
        double least_words = NEVER;
        for (double blocks = 1; blocks <= lines / units[fixed][lane] && own * blocks < least_words; ++blocks) {
            if (!in_blocks(fixed, lines, blocks, lane)) continue;
            const double width = lines / blocks, line = passes ? width : 0, sums = sums_of(fixed, width);
            const auto consider = [&](double most, bool anew, bool slides) {
                const double block = std::min({most, sums, points});
                if (!(block >= units[moved][lane])) return;
                double down = points / block;
                if (uncut) {
                    down = std::max(std::ceil(down * (1 - HIGHER)), 1.0);
                    while (down <= points && !in_blocks(moved, points, down, lane)) ++down;
                    if (down > points) return;
                }
                const double each = anew ? points * under(points / down, slides) : 0;   // words of a summand
                least_words = std::min(least_words, other * down + blocks * std::max(
                    own, tile.lines[SUMMANDS][lane] * each));
            };
            consider(whole - line, false, true);    // all summands
            const double inner = std::sqrt(std::max(space - taps * line, 0.0)) - std::sqrt(one.halo * halo);
            consider(inner > 0 ? inner * inner / (one.step * stride) : 0, true, true);   // all taps
            if (plane) {    // the taps of one window, or neither
                consider((space - two.taps * line) / (stride + halo / wide), true, true);
                consider((space - one.taps * line) / (one.step + one.halo / high), true, true);
            }
            consider(space - line, true, !plane);
        }
        return least_words;
    }
};

// The operands of a product that come in anew in each step. All sums of a block of rows and columns lie on the chip while
// operands pass by, or a block of one operand lies in the home while the other passes by. In smaller tiles more words come
// in per multiply-accumulate, so the largest tile counts, in parts of steps.
struct Streamed {
    const Product& product;
    const ProductUnits& work;
    ProductTile tile;               // the largest one
    const ProductTile& smallest;
    Lanes room;                     // of the home
    double unfinished;              // sums that fit inside the home
    double aside;                   // words as costly as an unfinished sum that is put aside and comes back; infinite: none may
    bool beside;                    // whether one of the operands stays in the home
    bool slides;                    // whether windows slide over one operand that comes in anew, as `Product::slider` knows
    Mask uncut = mask_of(true);     // whether loops leave the points under windows whole
    Mask single = mask_of(true);    // whether the box has one size of rows and columns
    Mask used;
    mutable std::optional<Lanes> free;  // words in one tile with any units at work, once they were asked for

    Streamed(const Product& product, const ProductUnits& work, const ProductTile& tile, const ProductTile& smallest,
             const Cuts& cuts, int index, Lanes room, double unfinished, double aside, bool beside)
        : product(product), work(work), tile(tile), smallest(smallest), room(room), unfinished(unfinished), aside(aside),
          beside(beside), slides(product.slider >= 0 && (product.slider ? tile.second : tile.first)),
          used(lanes_of([](int lane) { return double(lane); }) < double(cuts.used)) {
        for (int loop = 0; loop < cuts.loops; ++loop) {
            const LoopCut &most = cuts.largest(index)[loop], &fewest = cuts.smallest(index)[loop];
            if (most.dim >= 0 && product.kind[most.dim] == product.slider)
                uncut = uncut & in_one_tile(fewest, most, cuts.largest(cuts.layers - 1)[loop]);
            if (most.dim >= 0 && product.kind[most.dim] < SUMMANDS) single = single & (most.first == fewest.first);
        }
        single = single & used;
    }

    // The least words with a share of the units at work, in one tile of each lane. `whole`: the units divide the tile, and so do
    // the blocks; `windows`: where windows slide over one operand, blocks divide the lines of the other one.
    Lanes words(std::size_t share, bool whole, bool windows) const {
        Stream stream{tile, {tile.one, tile.other}, {}, work, 0, 0, {}};
        for (int own = 0; own < 2; ++own)
            for (const Rank& rank : product.layer.spaces[product.operands[own]].ranks) stream.windows[own] |= rank.terms.size() > 1;
        const std::array<double, 4>& least_units = work.side_by_side[share];
        for (int kind = 0; kind < GROUPS; ++kind) {
            stream.units[kind] = least_units[kind];
            if (!whole) continue;
            const Mask alike = used & (smallest.lines[kind] == tile.lines[kind]);   // they divide a tile of one size
            stream.units[kind] = lanes_of([&](int lane) {
                const double lines = tile.lines[kind][lane];
                double least = least_units[kind];
                if (alike[lane])
                    while (least <= lines && !divides(least, lines)) ++least;
                return least;
            });
        }
        const auto& [high, wide, deep] = stream.units;
        const double groups = least_units[GROUPS];
        stream.room = room / groups;    // groups side by side have blocks of equal shape
        stream.unfinished = unfinished / groups;
        Mask fits = stream.room >= deep * ((tile.first ? high : Lanes(0)) + (tile.second ? wide : Lanes(0)));
        for (int kind = 0; kind < GROUPS; ++kind) fits = fits & (tile.lines[kind] >= stream.units[kind]);
        fits = fits & (tile.lines[GROUPS] >= groups);
        if (whole && beside) {  // the operand that stays is whole there: no loop outside moves summands, taps or groups
            const int own = tile.second;
            const auto& lines = smallest.lines;
            const Lanes at_once = stream.windows[own]
                ? larger(stream.units[own], product.slider == own ? lines[WINDOW] : Lanes(1))
                : stream.units[own] * lines[WINDOW];
            fits = fits & (room >= lines[GROUPS] * lines[SUMMANDS] * at_once);
        }
        if (!fits.any()) return NEVER;
        const bool strips = whole && windows && product.slides.size() == 2 && single.any();
        Mask apart = mask_of(false);    // whether all summands and taps of a sum find no room together
        if (strips) {
            const Lanes each = lanes_of([&](int lane) { return single[lane] ? stream.strips(product, smallest, lane) : 0; });
            apart = each >= NEVER;
            Lanes& own = stream.brought[product.slider];
            own = larger(own, tile.lines[SUMMANDS] * where(each < NEVER, each));
        }
        Lanes least = select(apart, NEVER, smaller(stream.block(0), stream.block(1)));
        if (aside < NEVER) least = smaller(least, tile.one + tile.other + aside * tile.lines[0] * tile.lines[1]);
        Lanes sums = select(high * wide > stream.unfinished, NEVER, stream.summed());
        if ((whole || windows) && (fits & used & (sums < least)).any()) {
            sums = lanes_of([&](int lane) {
                double fewest = sums[lane];
                if (!(fits[lane] && used[lane])) return fewest;
                if (whole && fewest < least[lane]) fewest = std::max(fewest, stream.summed_whole(smallest, lane));
                if (strips && single[lane] && fewest < least[lane])
                    fewest = std::max(fewest, stream.summed_strips(product, smallest, lane));
                if (windows && fewest < least[lane])
                    fewest = std::max(fewest, stream.summed_windows(product, smallest, uncut[lane], lane));
                return fewest;
            });
        }
        return select(fits, smaller(least, sums), NEVER);
    }

    // The same with any units at work, which need not divide the tile.
    const Lanes& with_any_units() const {
        if (!free) free = words(SHARES - 1, false, false);
        return *free;
    }

    // The least words with a share of the units at work, all steps together. Of work in full tiles, a part `full` of all, the
    // units divide the tile; where windows slide over one operand, blocks divide the lines of the other one in a part `even`.
    Lanes fewest(std::size_t share, Lanes full, Lanes even) const {
        Lanes least = where(used, NEVER);   // in lanes that repeat another one nothing comes again
        Mask open = used;
        for (const bool whole : {true, false}) {    // of most work more is known
            const Lanes part = whole ? full : even;
            Mask known = open & (part > 0.5);
            if (!(whole || slides) || !known.any()) continue;
            Lanes rest = 0;
            if ((known & (part < 1.0)).any()) {
                rest = where(part < 1.0, with_any_units());
                known = known & (rest < NEVER);
            }
            least = select(known, part * words(share, whole, slides) + (1 - part) * rest, least);
            open = open & !known;
        }
        if (open.any()) least = select(open, share + 1 < SHARES ? words(share, false, false) : with_any_units(), least);
        return tile.steps * tile.lines[GROUPS] * least;
    }
};

// Two operands of a product in residencies of theirs.
struct ProductStay {
    Lanes held, staying, passing;       // words in the home; words from outside of operands that stay, and of those that do not
    std::optional<Streamed> streamed;   // unless both stay
};

// What an evaluation writes, kept for the next one: memory takes long to ask for beside it.
struct Workspace {
    Cuts cuts;
    std::vector<std::vector<Operand>> outside;  // by layer
    std::vector<ProductStay> stays;             // of one layer
    std::vector<Costs> costs;                   // by layer
};

}  // namespace

// The part of a layer's work in full tiles of the loops that cut some of its dimensions; 0 where tiles differ.
template <typename Among>
static Lanes full_part(const FusedLayer& layer, const FusedLayer& last, const LoopCut* small, const LoopCut* large,
                       const LoopCut* last_large, int loops, Among among) {
    Lanes part = 1;
    for (int loop = 0; loop < loops; ++loop) {
        const LoopCut& cut = large[loop];
        if (cut.dim < 0 || !among(cut.dim)) continue;
        const Lanes steps = floor(last.bounds[last_large[loop].dim] / last_large[loop].largest());
        const Mask alike = (cut.first == cut.usual()) & (cut.uneven == 0.0);
        const Mask single = in_one_tile(small[loop], cut, last_large[loop]);
        const Lanes points = larger(cut.points, small[loop].points);    // with those that are computed again
        part *= select(single, 1, where(alike, smaller(steps * small[loop].first / points, 1.0)));
    }
    return part;
}

// What is certain of the tiles of a loop in a box. Padding shortens the first steps and the last ones: with as many steps as
// windows reach into padding on both sides, and one more, some step reads none of it. Behind a resizing steps differ where
// they move on by parts of points. A loop of a single step is as good as none, without which a layer also computes the
// points that nothing reads.
static void certain_tiles(const FusedSegment& segment, int loop, Cuts& cuts) {
    const int count = int(segment.layers.size()), loops = cuts.loops;
    const LoopCut &last_small = cuts.smallest(count - 1)[loop], &last_large = cuts.largest(count - 1)[loop];
    std::vector<double> reached(std::size_t(count), 0);
    for (int index = count - 2; index >= 0; --index) {
        LoopCut &cut = cuts.small[std::size_t(index) * loops + loop], &most = cuts.large[std::size_t(index) * loops + loop];
        if (cut.dim < 0) continue;
        const ReadSlide& slide = segment.links[index].slides[cut.dim];
        const bool resizes = slide.resizes();
        const int reader = segment.reader(index);
        double& own = reached[std::size_t(index)];
        own = reached[std::size_t(reader)] + (slide.ahead > (resizes ? 0 : slide.advance) ? NEVER : slide.ahead > 0);
        const Mask inside = most.steps >= 2 * own + 1;
        // some step has a point, be the first tile all in padding
        cut.needed = select(inside, cut.needed, larger(cut.first, 1.0));
        cut.later = select(inside, cut.later, larger(smaller(cut.later, cut.first), 1.0));
        most.uneven += most.ahead + most.behind + cuts.largest(reader)[loop].uneven;
        const Mask equal = (last_small.first == last_large.first) & !(most.skewed > 0.0);
        if (resizes) most.uneven = select(equal, most.uneven, 1);
        const Lanes extent = segment.layers[std::size_t(index)].bounds[cut.dim];
        most.first = select(last_large.steps > 1.0, most.first, extent);
        most.later = select(last_large.steps > 1.0, most.later, extent);
    }
}

// The residencies of a product's operands that fit into the least room of any layer.
static void list_stays(const Product& product, const ProductUnits& work, const ProductTile& tile, const ProductTile& smallest,
                       const Cuts& cuts, int index, const std::vector<Operand>& outside, Lanes least, Lanes room,
                       double unfinished, double aside, std::vector<ProductStay>& found) {
    static const std::vector<Choice> none{{0, 0, true}};
    found.clear();
    const std::vector<Choice>& others = outside.size() > 1 ? outside[1].choices : none;
    found.reserve(outside[0].choices.size() * others.size());
    for (const Choice& one : outside[0].choices)
        for (const Choice& other : others) {
            const Lanes held = one.held + other.held;
            if (!(least >= held).any()) continue;
            ProductStay& stay = found.emplace_back(ProductStay{
                held, where(mask_of(one.stays), one.reads) + where(mask_of(other.stays), other.reads),
                where(mask_of(!one.stays), one.reads) + where(mask_of(!other.stays), other.reads), {}});
            const Spaces passing = Spaces(!one.stays) << outside[0].tensor |
                (other.stays ? 0 : Spaces(1) << outside.back().tensor);
            if (passing)
                stay.streamed.emplace(
                    product, work, tile.where_new(passing >> product.operands[0] & 1, passing >> product.operands[1] & 1),
                    smallest, cuts, index, room - held, unfinished, aside,
                    outside.size() > 1 && (one.stays || other.stays));
        }
}

// The words that come from outside for a product, all steps together: with those that come again for lack of room, and
// without. `share`: of the units at work; `full`, `even`: as of `Streamed::fewest`.
static std::pair<Lanes, Lanes> product_words(const std::vector<ProductStay>& stays, Lanes least, std::size_t share, Lanes full,
                                             Lanes even) {
    Lanes again = NEVER, once = NEVER;
    for (const ProductStay& stay : stays) {
        const Lanes passing = stay.streamed ? larger(stay.passing, stay.streamed->fewest(share, full, even)) : stay.passing;
        again = smaller(again, select(stay.held > least, NEVER, passing + stay.staying));
        once = smaller(once, select(stay.held > least, NEVER, stay.passing + stay.staying));
    }
    return {again, once};
}

// The least cost of each layer in the cut boxes of one order, after the decisions of a part: by its units at work.
// Infinite where no group fits. `crowded`: whether the residencies in which each operand has its fewest words do not fit
// together. `in_rounds`: the last layer in its first round of sums and all further ones together; nothing where there is one.
static void least_of(const FusedSegment& segment, const std::vector<LayerLeast>& layers,
                     const std::vector<std::optional<Product>>& products, const HomeLevel& home,
                     const LoopOrder& order, const GroupBox& decided, Workspace& space, Mask& crowded,
                     std::pair<Lanes, Lanes>& in_rounds) {
    const Cuts& cuts = space.cuts;
    std::vector<std::vector<Operand>>& outside = space.outside;
    std::vector<Costs>& found = space.costs;
    const auto& kept = decided.kept;
    const int count = int(segment.layers.size()), loops = cuts.loops;
    const FusedLayer& last = segment.layers.back();
    const LoopCut *last_small = cuts.smallest(count - 1), *last_large = cuts.largest(count - 1);
    std::vector<Lanes> room(count, Lanes(home.usable));
    Lanes resting = 0;  // words of intermediates that outlast a step
    for (int index = 0; index + 1 < count; ++index) {
        const FusedLayer& layer = segment.layers[index];
        const FusedLink& link = segment.links[index];
        const LoopCut* own = cuts.smallest(index);
        const Lanes lying = held(layer, layer.output, own, loops, kept[index], &link, last_small);
        Lanes rest = kept[index] ? lying : Lanes(0);
        for (int loop = 0; loop < loops; ++loop) {
            if (kept[index] != 1 << loop || own[loop].dim < 0) continue;
            Lanes inside = 1;   // steps of the loops inside the one along which words stay
            for (int inner = loop + 1; inner < loops; ++inner) inside *= last_large[inner].steps;
            const double stored = link.stored[own[loop].dim];
            const Lanes shared = ceil(larger(own[loop].needed - own[loop].advance, 0.0) / stored);
            rest = select(inside > 1, lying, lying * shared / ceil(own[loop].needed / stored));
        }
        resting += rest;
        for (int running = index; running <= segment.reader(index); ++running)
            room[running] = room[running] - (lying - rest);
    }
    outside.resize(count);
    for (int index = 0; index < count; ++index)
        list_operands(segment.layers[index], cuts.smallest(index), cuts.largest(index), last_small, loops, order.open,
                      layers[index].brought, layers[index].lasting, decided.stays[index], resting, outside[index]);
    Lanes rounds = 1, sums = 1;     // rounds of the loops that add to sums, and words of these that stay
    Lanes first = 1;                // the part of the work in the first one; 0 in a box of several
    Loops64 adding = 0;
    bool inside = false, home_sums = false;     // whether sums rest in the home, as other loops are inside such a loop
    for (int loop = 0; loop < loops; ++loop) {
        const bool adds = !last.moves(last.output, order.dims[loop]);
        if (adds) {
            rounds *= last_large[loop].steps, adding |= Loops64(1) << loop;
            first *= where(last_small[loop].first == last_large[loop].first, last_large[loop].first / last_large[loop].points);
        }
        home_sums = home_sums || (inside && !adds);
        inside = inside || adds;
    }
    home_sums = home_sums && !order.spilled && !order.open;
    Box tile;
    largest_tile(last, last_small, loops, tile.lanes);
    if (home_sums) resting += held(last, last.output, last_small, loops, adding, nullptr, last_small);
    else if (!order.spilled && !order.open) sums = volume(last.spaces[last.output], tile.lanes);
    Lanes least = NEVER;
    for (Lanes& own : room) own = own - resting, least = smaller(least, own);
    const Mask never = ((rounds > 1) & (sums > last.sums_room)) | (least < 0);
    Lanes together = 0;
    for (const auto& operands : outside)
        for (const Operand& operand : operands) {
            Lanes fewest = NEVER, lying = 0;
            for (const Choice& one : operand.choices) {
                const Mask better = (least >= one.held) & (one.reads < fewest);
                fewest = select(better, one.reads, fewest);
                lying = select(better, one.held, lying);
            }
            together += lying;
        }
    crowded = together > least;
    found.resize(count);
    for (Costs& own : found) own.fill({NEVER, NEVER});
    for (int index = 0; index < count; ++index) {
        const FusedLayer& layer = segment.layers[index];
        const LayerLeast& own = layers[index];
        const bool ends = !own.made;    // else its sums are finished on the chip
        const LoopCut *small = cuts.smallest(index), *large = cuts.largest(index);
        const Lanes times = computed(layer, large, loops);
        const Lanes full = full_part(layer, last, small, large, last_large, loops, [](int) { return true; });
        const std::optional<Product>& product = products[index];
        std::optional<ProductTile> smallest, largest;
        Lanes work = 0, even = 0;   // cycles of the arithmetic; see `Streamed::fewest`
        std::array<Lanes, 2> again{0, 0};   // words of each operand that the home reads per multiply-accumulate, at least
        Lanes crowded_sums = 1;     // factor on the time of the level with sums, of which tiles leave instances idle
        if (product) {
            if (product->slider >= 0)
                even = full_part(layer, last, small, large, last_large, loops, [&](int dim) {
                    return product->kind[dim] == 1 - product->slider; });
            const auto over = [&](const std::array<double, KINDS>& most) {
                return inverse_use(*product, most, last, small, large, last_large, loops);
            };
            work = own.units.computes * over(own.units.along);
            smallest.emplace(*product, small, loops);
            largest.emplace(*product, large, loops);
            for (int side = 0; side < 2; ++side) {
                const Lanes &fewest = smallest->lines[1 - side], &most = largest->lines[1 - side];
                const double uses = own.units.uses[side];   // one for each line of the other operand, which divide a full tile
                if (uses < NEVER)
                    again[side] = lanes_of([&](int lane) {
                        return full[lane] / side_by_side_at_most(fewest[lane], most[lane], uses) + (1 - full[lane]) / uses;
                    });
            }
            if (!own.summing.empty()) crowded_sums = larger(own.units.most_holders * over(own.units.holders), 1.0);
        }
        Lanes inward = 0;   // words that the home reads: each step takes what its tile needs
        for (int t = 0; t < int(layer.spaces.size()); ++t)
            if (own.through >> t & 1)
                inward += larger(larger(own.inward[t], own.units.computes * again[product && product->operands[1] == t]) * times,
                                 fetched(layer, t, large, loops, 0, false) * own.done);
        // sums that leave the level in which they are added up come back to it
        const bool returns = ends && (home_sums || order.spilled);
        const Lanes back = returns ? volume(layer.spaces[layer.output], layer.bounds.data()) * (rounds - 1) : Lanes(0);
        double once = 0;
        for (const Operand& operand : outside[index]) once += own.once[operand.tensor];
        // a part of the work, with some cycles of the arithmetic and words from outside in all, to which some sums come back,
        // and which writes some words to the outermost level
        const auto cost = [&](Lanes part, Lanes cycles, Lanes crowded_sums, std::pair<Lanes, Lanes> words, Lanes sums,
                              Lanes writes) {
            const double done = own.units.known ? own.done : 1;
            const Lanes reads = (larger(words.first * done, once) + own.lasting_words) * part + where(mask_of(order.spilled), sums);
            const Lanes fills = (where(mask_of(own.filled), larger(words.second * done, once)) + own.lasting_words) * part;
            const Lanes from_home = inward * part + where(mask_of(home_sums), sums), coming = fills + own.made * times * part;
            const Lanes energy = own.energy * times * part + fills * own.fill + sums * own.back +
                from_home * layer.home_price[0] + reads * layer.read + writes * layer.write;
            Lanes time = larger(cycles * times * part, (reads + writes) / layer.words_per_cycle);
            time = larger(time, from_home / home.read);
            time = larger(larger(time, coming / home.write), (from_home + coming) / home.shared);
            for (const auto& [busy, each] : own.summing) time = larger(time, (busy * times * part + sums * each) * crowded_sums);
            return std::pair(select(never, NEVER, energy * segment.repeat), time * segment.repeat);
        };
        const bool streams = own.units.known && !outside[index].empty();
        if (streams) {
            // sums of the last layer go to the outermost level and come back; sums that rest in the home cost no words
            const double spill = layer.write < layer.read ? 1 + layer.write / layer.read : 2;
            const double aside = ends ? spill : own.resting ? 0 : NEVER;
            list_stays(*product, own.units, *largest, *smallest, cuts, index, outside[index], least, room[index],
                       ends ? last.sums_room : own.unfinished, aside, space.stays);
        }
        const Lanes spilled = order.spilled ? back : Lanes(0);
        Lanes with_any = 0;     // words from the outermost level with any units at work, or those that come in for certain
        // Whether rounds, which take in and give words in other proportions than they compute, may differ in their units; the part
        // of the work in rounds of full tiles of summands, which have one mapping at each place of the other loops.
        const Mask mixed = (rounds > 1.0) & !(full > 0.5) & mask_of(ends);
        Lanes alike = 0, any = 0;   // and words from the outermost level with any units at work
        if (streams && mixed.any()) {
            alike = full_part(layer, last, small, large, last_large, loops, [&](int dim) {
                return !last.moves(last.output, dim); });
            any = product_words(space.stays, least, SHARES - 1, full, even).first;
        }
        for (std::size_t share = 0; share < found[index].size(); ++share) {
            std::pair<Lanes, Lanes> words{0, 0};    // from the outermost level: all, and those that come in for certain
            Lanes cycles = larger(own.cycles, work);
            if (streams) {
                words = product_words(space.stays, least, share, full, even);
                if (mixed.any())
                    words.first = select(mixed, where(alike > 0.0, alike * words.first) + where(alike < 1.0, (1 - alike) * any),
                                         words.first);
                // in tiles where blocks need not divide the lines, any units may be at work
                const Lanes known = select(full > 0.5, full, select(mixed, alike, select(even > 0.5, even, 1)));
                const Lanes slower = known / AT_WORK[share] + (1 - known);
                cycles = larger(cycles, own.units.computes / own.units.most * slower);
            } else {
                for (const Operand& operand : outside[index]) {
                    Lanes fewest = NEVER;
                    for (const Choice& one : operand.choices)
                        fewest = smaller(fewest, select(one.held > least, NEVER, one.reads));
                    words.first += larger(fewest * own.done, own.once[operand.tensor]);
                }
                words.second = words.first;
            }
            found[index][share] = cost(1, cycles, crowded_sums, words, back, own.written + spilled);
            if (!share)
                with_any = (words.first > words.second).any()
                    ? product_words(space.stays, least, SHARES - 1, full, even).first : words.second;
            if (!(words.first > with_any).any()) break;     // no fewer words come in with fewer units at work
        }
        if (returns && streams) {   // in rounds, with any units at work: the first one has no sums that come back
            const std::pair<Lanes, Lanes> words = product_words(space.stays, least, SHARES - 1, 0, 0);
            const Lanes sent = spilled / larger(rounds - 1, 1.0);
            const auto [energy, time] = cost(first, own.cycles, 1, words, 0, sent);
            const auto [further, longer] = cost(1 - first, own.cycles, 1, words, back, own.written + spilled - sent);
            const Mask known = (first > 0.0) & (words.first < NEVER);
            in_rounds = {where(known, energy + further), where(known, time + longer)};
        }
    }
}

}  // namespace FADIFF_LANES

// The costs of all layers in a lane, with the shares of their units at work that no other ones undercut; none where a layer has
// no finite one. `ends`: of the costs of each layer.
static std::vector<LeastCost> least_costs(const std::vector<Costs>& layers, int lane,
                                          std::array<std::uint8_t, MOST_LINKS + 1>& ends) {
    LeastCost found[(MOST_LINKS + 1) * SHARES];
    std::size_t count = 0;
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
        const std::size_t first = count;
        for (const auto& [energy, cycles] : layers[layer]) {
            const LeastCost own{energy[lane], cycles[lane]};
            const auto undercuts = [&own](const LeastCost& other) {
                return other.energy <= own.energy && other.cycles <= own.cycles;
            };
            if (own.energy == NEVER || std::any_of(found + first, found + count, undercuts)) continue;
            count = std::remove_if(found + first, found + count, [&own](const LeastCost& other) {
                return own.energy <= other.energy && own.cycles <= other.cycles;
            }) - found;
            found[count++] = own;
        }
        if (count == first) return {};
        ends[layer] = std::uint8_t(count);
    }
    return {found, found + count};
}

void GroupBound::evaluate(std::vector<GroupPart>& parts) {
    const LoopOrder& order = orders_[parts[0].order];
    const std::size_t count = segment_.layers.size();
    const int loops = int(order.dims.size());
    std::vector<Loops64> retained, open;
    for (std::size_t link = 0; link + 1 < count; ++link) {
        retained.push_back(~Loops64(parts[0].again[link]));
        open.push_back(~Loops64(parts[0].again[link] | parts[0].kept[link]));
    }
    static thread_local Workspace space;
    Cuts& cuts = space.cuts;
    cuts.lay_out(int(count), loops);
    Box small, large;
    for (std::size_t first = 0; first < parts.size(); first += LANES) {
        cuts.used = int(std::min(parts.size() - first, std::size_t(LANES)));
        const auto part = [&](int lane) -> GroupPart& { return parts[std::min(first + lane, parts.size() - 1)]; };
        for (int loop = 0; loop < loops; ++loop) {
            small.lanes[loop] = lanes_of([&](int lane) { return part(lane).least[loop]; });
            large.lanes[loop] = lanes_of([&](int lane) { return part(lane).most[loop]; });
        }
        cut_layers(segment_, order.dims, small.lanes, retained, cuts.small.data(), true);
        const WidestTiles widest{cuts.small.data(), open};
        cut_layers(segment_, order.dims, large.lanes, retained, cuts.large.data(), true, &widest);
        for (int loop = 0; loop < loops; ++loop) certain_tiles(segment_, loop, cuts);
        Mask crowded;
        std::pair<Lanes, Lanes> rounds{0, 0};
        least_of(segment_, layers_, products_, home_, order, parts[0], space, crowded, rounds);
        for (int lane = 0; lane < cuts.used; ++lane) {
            part(lane).crowded = crowded[lane];
            part(lane).rounds = {rounds.first[lane], rounds.second[lane]};
            part(lane).costs = least_costs(space.costs, lane, part(lane).ends);
            part(lane).price = price_of(part(lane), price_);
        }
    }
}

GroupBound::GroupBound(const FusedSegment& segment, std::vector<LayerLeast> layers, HomeLevel home,
                       std::vector<LoopOrder> orders, const std::vector<std::pair<int, int>>& alike,
                       std::vector<std::vector<int>> shared)
    : segment_(segment), layers_(std::move(layers)), home_(home), orders_(std::move(orders)), shared_(std::move(shared)) {
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
        find_side_by_side(layers_[layer].units);
        products_.emplace_back();
        if (layers_[layer].units.known) products_.back().emplace(segment.layers[layer]);
    }
    const std::vector<int>& dims = orders_[0].dims;
    const std::vector<double>& bounds = segment.layers.back().bounds;
    for (Loops64 several = 0; several < Loops64(1) << dims.size(); ++several) {     // loops of more than one step
        const auto cut = [&](int dim) { return several >> (std::find(dims.begin(), dims.end(), dim) - dims.begin()) & 1; };
        const bool mirrored = std::any_of(alike.begin(), alike.end(), [&](const std::pair<int, int>& pair) {
            return cut(pair.first) && !cut(pair.second);
        });
        if (mirrored || std::any_of(dims.begin(), dims.end(), [&](int dim) { return cut(dim) && bounds[dim] < 2; })) continue;
        GroupPart& part = parts_.emplace_back();
        for (std::size_t loop = 0; loop < dims.size(); ++loop) {
            const double bound = bounds[dims[loop]];
            part.least[loop] = cut(dims[loop]) ? 1 : bound;
            part.most[loop] = cut(dims[loop]) ? bound - 1 : bound;
        }
    }
    evaluate(parts_);
}

Product::Product(const FusedLayer& layer) : layer(layer) {
    for (int t = 0, count = 0; t < int(layer.spaces.size()); ++t)
        if (!layer.spaces[t].written) operands[count++] = t;
    for (int dim = 0; dim < layer.dims(); ++dim) {
        const bool left = layer.moves(operands[0], dim), right = layer.moves(operands[1], dim);
        const bool apart = left && right && layer.rank_of(operands[0], dim).terms.size() == 1 &&
            layer.rank_of(operands[1], dim).terms.size() == 1;
        kind.push_back(left && !right ? ROWS : right && !left ? COLUMNS
                       : layer.spaces[layer.output].relevant >> dim & 1 ? GROUPS : apart ? SUMMANDS : WINDOW);
    }
    bool known = true;
    for (int own = 0; own < 2; ++own)
        for (const Rank& rank : layer.spaces[operands[own]].ranks) {
            if (rank.terms.size() < 2) continue;
            const auto tap = std::find_if(rank.terms.begin(), rank.terms.end(), [&](const Rank::Term& term) {
                return kind[term.dim] == WINDOW; });
            const Rank::Term& point = rank.terms[tap == rank.terms.begin()];
            if (rank.terms.size() > 2 || tap == rank.terms.end() || kind[point.dim] != own) known = false;
            else if (layer.bounds[tap->dim] > 1) slides.emplace_back(point, *tap, layer.bounds[tap->dim]);
            slider = own;
        }
    if (!known || slides.empty() || slides.size() > 2) slider = -1;
}

std::size_t layer_prices(const GroupPart& part, const Price& price, double* found) {
    std::size_t layers = 0, number = 0;
    for (const std::uint8_t* end = part.ends.data(); number < part.costs.size(); ++end) {
        double least = NEVER;
        for (; number < *end; ++number) least = std::min(least, price.of(part.costs[number].energy, part.costs[number].cycles));
        found[layers++] = least;
    }
    if (layers) found[layers - 1] = std::max(found[layers - 1], price.of(part.rounds.energy, part.rounds.cycles));
    return layers;
}

// The least price of a part without searches.
static double bounded_price(const GroupPart& part, const Price& price) {
    double layers[MOST_LINKS + 1];
    const std::size_t count = layer_prices(part, price, layers);
    return count ? std::accumulate(layers, layers + count, 0.0) : NEVER;
}

double price_of(const GroupPart& part, const Price& price) {
    double least = bounded_price(part, price);
    for (const SearchedPrice& searched : part.searched) {
        // at other prices, a multiple of the searched one within them, and the bound at what they leave
        const auto within = [](double at, double asked) { return at == NEVER ? NEVER : at / asked; };
        const double times = std::min(within(searched.at.energy, price.energy), within(searched.at.cycles, price.cycles));
        const auto left = [times](double at, double asked) {
            const double share = 1 / asked - times / at;
            return share > 0 ? 1 / share : NEVER;
        };
        least = std::max(least, times * searched.least + bounded_price(part, {
            left(searched.at.energy, price.energy), left(searched.at.cycles, price.cycles)}));
    }
    return least;
}

double GroupBound::lower(const Price& price) const {
    double least = NEVER;
    if (price == price_) {
        least = whole_.empty() ? NEVER : whole_.top().first;
        for (const auto& [decisions, queue] : waiting_) least = std::min(least, queue.top().first);
        return least;
    }
    for (const GroupPart& part : parts_) least = std::min(least, price_of(part, price));
    return least;
}

std::vector<std::pair<int, double>> GroupBound::least_loops(const Price& price) const {
    std::vector<std::pair<int, double>> found;
    double least = NEVER;
    std::size_t fewest = MOST_LOOPS + 2;
    for (const GroupPart& part : parts_) {
        const double value = price_of(part, price);
        if (value > least * (1 + HIGHER)) continue;
        const LoopOrder& order = orders_[part.order];
        std::vector<std::pair<int, double>> loops;
        for (std::size_t loop = 0; !order.open && loop < order.dims.size(); ++loop)
            if (part.most[loop] < segment_.layers.back().bounds[order.dims[loop]])
                loops.push_back({order.dims[loop], part.most[loop]});
        const std::size_t own = order.open ? MOST_LOOPS + 1 : loops.size();
        if (value >= least * (1 - HIGHER) && own >= fewest) continue;
        least = std::min(least, value), fewest = own;
        found = std::move(loops);
    }
    return found;
}

// How many residencies an operand from outside may have in an order.
int GroupBound::choices_of(std::size_t layer, int tensor, const LoopOrder& order) const {
    const std::size_t loops = order.dims.size();
    std::vector<LoopCut> cuts(segment_.layers.size() * loops);
    std::vector<Choice> found;
    Box sizes;
    for (std::size_t loop = 0; loop < loops; ++loop) sizes.lanes[loop] = 1;
    cut_layers(segment_, order.dims, sizes.lanes, std::vector<Loops64>(segment_.links.size(), 0), cuts.data(), true);
    const LoopCut *own = cuts.data() + layer * loops, *last = cuts.data() + (segment_.layers.size() - 1) * loops;
    list_choices(segment_.layers[layer], tensor, own, own, last, int(loops), false, layers_[layer].brought >> tensor & 1, 0, found);
    return int(found.size());
}

// Which orders are tried where some loops of the open order have several steps. Orders in which these loops follow one another
// alike share one: loops of a single step are outside the others or, if they add to sums, inside, so that sums rest in the home
// for no other loop. Where no order has these places, all are tried. Unfinished sums to which no loop of several steps adds never
// leave the chip.
const std::vector<bool>& GroupBound::orders_with(Loops64 several) {
    std::vector<bool>& tried = tried_[several];
    if (!tried.empty()) return tried;
    const FusedLayer& last = segment_.layers.back();
    const std::vector<int>& open = orders_[0].dims;
    const auto loops = [&](int dim) { return several >> (std::find(open.begin(), open.end(), dim) - open.begin()) & 1; };
    const auto adding = [&](int dim) { return !last.moves(last.output, dim); };
    const bool adds = std::any_of(open.begin(), open.end(), [&](int dim) { return loops(dim) && adding(dim); });
    // whether sums leave the chip, and the loops of several steps, the outermost one first
    const auto key_of = [&](const LoopOrder& order) {
        std::pair<bool, std::vector<int>> key{order.spilled && adds, {}};
        std::copy_if(order.dims.begin(), order.dims.end(), std::back_inserter(key.second), loops);
        return key;
    };
    const auto place = [&](int dim) { return loops(dim) ? 1 : adding(dim) ? 2 : 0; };
    std::map<std::pair<bool, std::vector<int>>, std::size_t> first;     // orders with these places
    for (std::size_t number = 1; number < orders_.size(); ++number) {
        const std::vector<int>& dims = orders_[number].dims;
        if (std::is_sorted(dims.begin(), dims.end(), [&](int a, int b) { return place(a) < place(b); }))
            first.emplace(key_of(orders_[number]), number);
    }
    for (std::size_t number = 0; number < orders_.size(); ++number) {
        const auto shared = first.find(key_of(orders_[number]));
        tried.push_back(number && (shared == first.end() || shared->second == number));
    }
    return tried;
}

// The box of a part in two along a loop: by steps, or by tile sizes where all have as many steps.
void GroupBound::halve(const GroupBox& part, std::size_t loop, std::vector<GroupPart>& found) const {
    const double bound = segment_.layers.back().bounds[orders_[part.order].dims[loop]];
    const double most = std::ceil(bound / part.least[loop]), least = std::ceil(bound / part.most[loop]);
    double size = std::floor((part.least[loop] + part.most[loop]) / 2) + 1;
    if (most > least)   // the least tile in at most as many steps as in the middle
        size = std::ceil(bound / std::min(std::max(std::floor(std::sqrt(most * least)), least), most - 1));
    found.insert(found.end(), 2, GroupPart{part});
    found[found.size() - 2].most[loop] = size - 1;
    found.back().least[loop] = size;
}

// Boxes are divided until no loop has many more steps in one of a box's tiles than in another; then the order is chosen.
// After that, whether an intermediate stays along a loop or is made again, and the residency of an operand from outside, where
// the least costly case costs most; where that costs nothing yet, the box first, by steps and then by sizes.
std::vector<std::vector<GroupPart>> GroupBound::divided(const std::vector<GroupPart>& parts) {
    const LoopOrder& order = orders_[parts[0].order];
    const std::vector<double>& bounds = segment_.layers.back().bounds;
    const std::size_t loops = order.dims.size();
    std::vector<std::vector<GroupPart>> found(parts.size());
    if (!loops) return found;
    // of the most steps to the least in a box
    const auto ratio = [&](const GroupPart& part, std::size_t loop) {
        const double bound = bounds[order.dims[loop]];
        return std::ceil(bound / part.least[loop]) / std::ceil(bound / part.most[loop]);
    };
    std::vector<double> widest(parts.size(), 1), best;
    for (std::size_t number = 0; number < parts.size(); ++number) {
        const GroupPart& part = parts[number];
        bool wide = false;
        for (std::size_t loop = 0; loop < loops; ++loop) {
            widest[number] = std::max(widest[number], ratio(part, loop));
            wide |= part.least[loop] < part.most[loop];
        }
        best.push_back(wide ? part.price * (1 + HIGHER) : -1);
    }
    // Divides some parts by a choice, where that raises the price more than all choices before; ends where that is known to raise
    // none. `choose(part, choice)`: whether the choice is open to a part, which then takes it.
    const auto decide = [&](const std::vector<std::size_t>& some, int choices, const auto& choose) {
        if (some.empty()) return;
        std::vector<std::vector<GroupPart>> own(some.size());
        std::vector<double> value(some.size(), NEVER);
        for (int choice = 0; choice < choices; ++choice) {
            std::vector<GroupPart> chosen;
            std::vector<std::size_t> of;    // which of the parts they belong to
            for (std::size_t i = 0; i < some.size(); ++i) {
                GroupPart part{GroupBox(parts[some[i]])};
                if (choose(part, choice)) chosen.push_back(std::move(part)), of.push_back(i);
            }
            if (chosen.empty()) continue;
            bounded_ += segment_.layers.size();
            evaluate(chosen);
            for (std::size_t k = 0; k < of.size(); ++k) {
                value[of[k]] = std::min(value[of[k]], chosen[k].price);
                own[of[k]].push_back(std::move(chosen[k]));
            }
            bool rises = false;
            for (std::size_t i = 0; i < some.size(); ++i) rises |= value[i] > best[some[i]];
            if (!rises) return;
        }
        for (std::size_t i = 0; i < some.size(); ++i) {
            if (!(value[i] > best[some[i]])) continue;
            best[some[i]] = value[i];
            found[some[i]] = std::move(own[i]);
        }
    };
    const auto where = [&](const auto& test) {
        std::vector<std::size_t> some;
        for (std::size_t number = 0; number < parts.size(); ++number)
            if (test(number)) some.push_back(number);
        return some;
    };
    if (order.open) {
        const auto several = [&](const GroupPart& part) {
            Loops64 found = 0;
            for (std::size_t loop = 0; loop < loops; ++loop)
                found |= Loops64(part.least[loop] < bounds[order.dims[loop]]) << loop;
            return found;
        };
        const std::vector<std::size_t> narrow = where([&](std::size_t number) { return widest[number] < WIDE; });
        for (const std::size_t number : narrow) best[number] = -1;
        decide(narrow, int(orders_.size()) - 1, [&](GroupPart& part, int choice) {
            const GroupBox before = part;
            part.order = std::uint16_t(choice + 1);
            if (!orders_with(several(part))[part.order]) return false;
            for (std::size_t loop = 0; loop < loops; ++loop) {
                const std::vector<int>& dims = orders_[part.order].dims;
                const auto place = std::find(order.dims.begin(), order.dims.end(), dims[loop]) - order.dims.begin();
                part.least[loop] = before.least[place];
                part.most[loop] = before.most[place];
            }
            return true;
        });
    }
    for (std::size_t loop = 0; !order.open && loop < loops; ++loop)
        for (std::size_t link = shared_.size(); link-- > 0;) {
            const std::uint8_t bit = std::uint8_t(1 << loop);
            if (((parts[0].again[link] | parts[0].kept[link]) & bit) ||
                std::find(shared_[link].begin(), shared_[link].end(), order.dims[loop]) == shared_[link].end())
                continue;
            const double bound = bounds[order.dims[loop]];
            decide(where([&](std::size_t number) { return parts[number].least[loop] < bound; }), 2,
                   [&](GroupPart& part, int stays) {
                (stays ? part.kept : part.again)[link] |= bit;
                return true;
            });
            break;
        }
    for (std::size_t layer = 0; !order.open && layer < segment_.layers.size(); ++layer) {
        const FusedLayer& own = segment_.layers[layer];
        for (auto [t, slot] = std::pair(0, std::size_t(0)); t < int(own.spaces.size()) && slot < 2; ++t) {
            if (own.spaces[t].written || (own.handed | layers_[layer].lasting) >> t & 1) continue;
            const std::vector<std::size_t> crowded = where([&](std::size_t number) { return parts[number].crowded; });
            if (!parts[0].stays[layer][slot] && !crowded.empty()) {
                int& choices = choices_[{parts[0].order, layer, t}];
                if (!choices) choices = choices_of(layer, t, order);
                decide(crowded, choices, [&, place = slot](GroupPart& part, int choice) {
                    part.stays[layer][place] = std::uint8_t(choice + 1);
                    return true;
                });
            }
            ++slot;
        }
    }
    // boxes of the other parts, side by side
    std::vector<GroupPart> boxes;
    std::vector<std::size_t> first;     // of each part
    for (std::size_t number = 0; number < parts.size(); ++number) {
        const GroupPart& part = parts[number];
        first.push_back(boxes.size());
        if (!found[number].empty()) continue;
        std::vector<GroupPart> own;
        if (widest[number] > 1) own.push_back(GroupPart{GroupBox(part)});
        for (std::size_t loop = 0; loop < loops; ++loop) {
            if (widest[number] == 1) {  // sizes with as many steps, of one loop or another
                if (part.least[loop] < part.most[loop]) halve(part, loop, own);
            } else if (ratio(part, loop) > 1 && ratio(part, loop) * ratio(part, loop) >= widest[number]) {
                std::vector<GroupPart> halves;
                for (const GroupPart& box : own) halve(box, loop, halves);
                own = std::move(halves);
            }
        }
        std::move(own.begin(), own.end(), std::back_inserter(boxes));
    }
    first.push_back(boxes.size());
    if (!boxes.empty()) evaluate(boxes);
    bounded_ += (boxes.size() + LANES - 1) / LANES * segment_.layers.size();
    for (std::size_t number = 0; number < parts.size(); ++number) {
        std::size_t begin = first[number], end = first[number + 1];
        if (widest[number] == 1) {  // of the loop along which the price rises most on average, at most to twice as much
            const auto rise = [&](std::size_t box) { return std::min(boxes[box].price, 2 * parts[number].price); };
            double highest = 0;
            std::size_t taken = end;
            for (std::size_t box = begin; box < end; box += 2) {
                const double sum = rise(box) + rise(box + 1);
                if (sum > highest * (1 + HIGHER)) highest = sum, taken = box;
            }
            begin = taken, end = std::min(taken + 2, end);
        }
        for (std::size_t box = begin; box < end; ++box) found[number].push_back(std::move(boxes[box]));
    }
    return found;
}

std::vector<GroupPart> GroupBound::divided_at(const GroupBox& part, const Price& price) {
    price_ = price;
    std::vector<GroupPart> parts{GroupPart{part}};
    evaluate(parts);
    std::vector<GroupPart> found = std::move(divided(parts)[0]);
    price_ = {0, 0};    // the next call takes up all parts
    return found;
}

int GroupBound::residencies(std::size_t order, std::size_t layer, std::size_t slot) const {
    const FusedLayer& own = segment_.layers[layer];
    for (int t = 0; t < int(own.spaces.size()); ++t) {
        if (own.spaces[t].written || (own.handed | layers_[layer].lasting) >> t & 1) continue;
        if (!slot--) return choices_of(layer, t, orders_[order]);
    }
    return 0;
}

// Takes up the part at a place among those that wait, or among those that are whole.
void GroupBound::rank(std::size_t place) {
    const GroupPart& part = parts_[place];
    if (part.price == NEVER) return;
    (part.whole ? whole_ : waiting_[part]).push({part.price, place});
}

// Takes up all parts at a price.
void GroupBound::rank_at(const Price& price) {
    if (price == price_) return;
    price_ = price;
    whole_ = {};
    waiting_.clear();
    for (std::size_t place = 0; place < parts_.size(); ++place) {
        parts_[place].price = price_of(parts_[place], price);
        rank(place);
    }
}

std::optional<WholePart> GroupBound::least_whole(const Price& price) {
    rank_at(price);
    if (whole_.empty() || lower(price) < whole_.top().first) return {};
    WholePart found;
    found.place = whole_.top().second;
    const GroupPart& part = parts_[found.place];
    const LoopOrder& order = orders_[part.order];
    const bool known = std::any_of(part.searched.begin(), part.searched.end(), [&](const SearchedPrice& searched) {
        return searched.at == price; });
    const bool single = std::equal(part.least.begin(), part.least.begin() + order.dims.size(), part.most.begin());
    if (order.open || known || !single) return {};
    for (std::size_t loop = 0; loop < order.dims.size(); ++loop)
        if (part.most[loop] < segment_.layers.back().bounds[order.dims[loop]])
            found.loops.push_back({order.dims[loop], part.most[loop]});
    found.spilled = order.spilled;
    for (std::size_t link = 0; link < segment_.links.size(); ++link) {
        std::vector<int>& kept = found.kept.emplace_back();
        for (std::size_t loop = 0; loop < order.dims.size(); ++loop)
            if (part.kept[link] >> loop & 1) kept.push_back(order.dims[loop]);
    }
    found.stays.assign(part.stays.begin(), part.stays.begin() + segment_.layers.size());
    found.prices.resize(segment_.layers.size());
    layer_prices(part, price, found.prices.data());
    return found;
}

void GroupBound::searched(std::size_t place, const Price& price, double least) {
    GroupPart& part = parts_[place];
    part.searched.push_back({price, least});
    part.price = price_of(part, price_);
    if (!whole_.empty() && whole_.top().second == place) whole_.pop(), rank(place);
    else price_ = {0, 0};   // the next call takes up all parts
}

std::size_t GroupBound::refine(const Price& price, double bar, std::size_t most) {
    rank_at(price);
    const auto least_whole = [&] { return whole_.empty() ? NEVER : whole_.top().first; };
    const std::size_t before = bounded_;
    while (!waiting_.empty() && bounded_ - before < most) {
        const auto least = std::min_element(waiting_.begin(), waiting_.end(), [](const auto& one, const auto& other) {
            return one.second.top() < other.second.top();
        });
        if (least->second.top().first >= std::min(bar, least_whole())) break;  // the least price is that of a whole part
        std::vector<GroupPart> parts;   // of one order after the same decisions, so that eight are bounded at once
        std::vector<std::size_t> places;
        for (; !least->second.empty() && parts.size() < LANES && least->second.top().first < std::min(bar, least_whole());
             least->second.pop()) {
            places.push_back(least->second.top().second);
            parts.push_back(std::move(parts_[places.back()]));
        }
        if (least->second.empty()) waiting_.erase(least);
        std::vector<std::vector<GroupPart>> found = divided(parts);
        for (std::size_t number = 0; number < parts.size(); ++number) {
            if (found[number].empty()) {
                parts[number].whole = true;
                parts_[places[number]] = std::move(parts[number]);
                rank(places[number]);
                continue;
            }
            gone_.push_back(places[number]);
            for (GroupPart& part : found[number]) {
                if (part.price == NEVER) continue;  // no group fits
                if (gone_.empty()) gone_.push_back(parts_.size()), parts_.emplace_back();
                const std::size_t place = gone_.back();     // that of one that was divided
                gone_.pop_back();
                parts_[place] = std::move(part);
                rank(place);
            }
        }
    }
    return bounded_ - before;
}

}  // namespace fadiff
