// The least cost of any fused group of a segment, by branch and bound.
//
// A part of all groups has one order of the shared loops, or all orders; a box of tile sizes; and for each intermediate the
// loops along which it stays, is recomputed, or may do either. Fetched words are those of the largest tiles of the box,
// occupied words those of the smallest tiles: no group of the part costs less. The part with the least price is divided until
// that price is high enough. docs/theory/planning.md has the rules and their proofs.

#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "fused_segment.hpp"

namespace fadiff {

// Classes of groups by the units of a layer at work: up to this share of the most units, and above the next entry's.
constexpr std::array<double, 9> AT_WORK{1.0, 15.0 / 16, 3.0 / 4, 5.0 / 8, 1.0 / 2, 3.0 / 8, 1.0 / 4, 1.0 / 8, 0.0};

constexpr std::size_t SHARES = AT_WORK.size() - 1;

// Units at work side by side in a product of two operands. Rows are dimensions of the first operand and the output, columns
// of the second operand and the output, summands of both operands and not of the output, groups of all three tensors.
struct ProductUnits {
    bool known = false;                         // whether the layer is such a product, with both operands in the home
    double computes = 0;                        // multiply-accumulates, each once
    double most = 1;                            // most units at work
    std::array<double, 5> along{1, 1, 1, 1, 1}; // most rows, columns, summands, groups, steps along windows side by side
    // most units at work without rows, without columns, without summands, without groups side by side
    std::array<double, 4> beside{1, 1, 1, 1};
    std::array<double, 4> whole{0, 0, 0, 0};    // rows, columns, summands, groups that no loop cuts; 0: loops may cut them
    double holder = 0;                          // words of one instance of the only level that may hold unfinished sums
    double most_holders = 1;                    // most instances of this level
    std::array<double, 5> holders{1, 1, 1, 1, 1};   // most instances along rows, columns, summands, groups, windows' steps
    // most multiply-accumulates that one read of a word from the home serves, by operand; infinite: unknown
    std::array<double, 2> uses{1, 1};
    // least rows, columns, summands and groups side by side, by the share of units at work
    std::array<std::array<double, 4>, SHARES> side_by_side{};
};

// Kinds of dimensions in a product of two operands, as in ProductUnits, and steps along a window.
enum ProductKind { ROWS, COLUMNS, SUMMANDS, GROUPS, WINDOW, KINDS };

// A window that slides along a rank: `points` of the output have step * points + halo distinct words under all its taps.
struct Slide {
    int dim;                    // dimension of the points
    double step, halo, taps;
    double visits;              // least visits of different taps, unless all taps are there at once

    Slide(const Rank::Term& point, const Rank::Term& tap, double taps) : dim(point.dim), taps(taps), visits(2) {
        step = tap.coefficient > point.coefficient ? 1 : std::min(point.coefficient, taps);
        halo = taps - step;
        while (visits < taps && !divides(visits, taps)) ++visits;
    }
};

struct Product {
    const FusedLayer& layer;
    int operands[2];
    std::vector<ProductKind> kind;  // [D]
    int slider = -1;            // the operand with one or two windows, each of one dimension of points and one of taps; -1: none
    std::vector<Slide> slides;  // its windows of several taps

    explicit Product(const FusedLayer& layer);
};

// Lower bounds on the numbers of a layer in any mapping in a group, over all steps.
struct LayerLeast {
    double energy = 0, cycles = 0;  // on the chip, without reads and fills of the home, each operation once
    double written = 0;             // words to the outermost level
    double made = 0;                // words of the output that come to the home, each once
    double done = 1;                // the share of the layer that groups need
    bool filled = false;            // whether the home keeps all words from outside
    double fill = 0;                // pJ of a word that comes to the home
    double back = 0;                // pJ of a partial sum that comes back to the level where sums are added
    std::vector<std::pair<double, double>> summing; // at this level, by port: cycles, and cycles of a sum that comes back
    double unfinished = 0;          // words of unfinished sums for which there is room
    bool resting = false;           // whether unfinished sums of the output may rest in the home
    ProductUnits units;
    Spaces through = 0;             // operands that the home keeps in every mapping
    Spaces brought = 0;             // operands that an earlier layer may have brought
    Spaces lasting = 0;             // operands that are lasting tensors, whole in the home
    double lasting_words = 0;       // words of these that are fetched, to stay for other groups, without words in the home
    std::vector<double> once;       // [T] distinct words
    std::vector<double> inward;     // [T] words that the home reads, each operation once
};

struct LoopOrder {
    std::vector<int> dims;  // dimensions of the last layer, outermost loop first; every order has the same dimensions
    bool spilled = false;   // whether unfinished sums leave the chip between steps
    bool open = false;      // whether it stands for all orders, each with sums that leave the chip or stay
};

// The only level that can be a home.
struct HomeLevel {
    double usable = 0;                          // words
    double read = 0, write = 0, shared = 0;     // most words per cycle that are read, written, and both together
};

constexpr std::size_t MOST_LOOPS = 8, MOST_LINKS = 16;   // most loops and links of a group with this bound

struct LeastCost {
    double energy = 0, cycles = 0;
};

// Decisions of a part of all groups. Loops along which words stay, or are recomputed, are bits by position in the order.
struct Decisions {
    std::uint16_t order = 0;
    std::array<std::uint8_t, MOST_LINKS> again{}, kept{};   // by link
    // by layer and operand from outside: the number of its residency from 1 on, 0: any residency
    std::array<std::array<std::uint8_t, 2>, MOST_LINKS + 1> stays{};

    bool operator<(const Decisions& other) const { return std::memcmp(this, &other, sizeof(Decisions)) < 0; }
};
static_assert(std::has_unique_object_representations_v<Decisions>, "compared byte by byte");

// A part of all groups.
struct GroupBox : Decisions {
    std::array<double, MOST_LOOPS> least{}, most{};         // tile sizes, by position in the order
};

// The least price of a part's groups, proved by a search of all tiles at some price.
struct SearchedPrice {
    Price at;
    double least;
};

// A part of all groups with its least costs.
struct GroupPart : GroupBox {
    double price = 0;       // at the last price at which parts were divided; infinite where no group fits
    std::vector<SearchedPrice> searched;
    bool whole = false;     // whether it cannot be divided: no decision is open, or it has no price
    bool crowded = false;   // whether operands from outside, each with its longest residency, do not fit together
    // layer by layer, costs by units at work, without costs that another one undercuts; empty: no group fits
    std::vector<LeastCost> costs;
    std::array<std::uint8_t, MOST_LINKS + 1> ends{};    // end of the costs of each layer
    LeastCost rounds{};     // cost of the last layer over all rounds of its sums, if known
};

// The least price of each layer of a part at its cheapest units at work, of the last layer at least the price of its rounds.
// Returns the number of layers; 0 where no group fits.
std::size_t layer_prices(const GroupPart& part, const Price& price, double* found);

// The least price of a part: the sum over its layers, or a searched one if that is higher; infinite where no group fits.
double price_of(const GroupPart& part, const Price& price);

// The groups of a part that cannot be divided.
struct WholePart {
    std::size_t place = 0;
    std::vector<std::pair<int, double>> loops;      // dimension of the last layer and tile of each loop of several steps
    std::vector<std::vector<int>> kept;             // by link, dimensions of loops along which its words stay
    bool spilled = false;                           // whether unfinished sums leave the chip between steps
    std::vector<std::array<std::uint8_t, 2>> stays; // as in Decisions
    std::vector<double> prices;                     // least price of each layer
};

class GroupBound {
public:
    // `orders`: the first order is open. `alike`: all pairs of dimensions of the last layer whose loops are interchangeable;
    // the first of a pair comes first in all orders. `shared`: for each link the dimensions of the last layer along which
    // steps share words of the intermediate.
    GroupBound(const FusedSegment& segment, std::vector<LayerLeast> layers, HomeLevel home,
               std::vector<LoopOrder> orders, const std::vector<std::pair<int, int>>& alike,
               std::vector<std::vector<int>> shared);

    // The least price of all parts; infinite where no group fits.
    double lower(const Price& price) const;

    // Dimensions and largest tile sizes of the loops with several steps in the part with the least price, outermost loop first;
    // of equal parts, the part with the fewest loops; empty where its order is open.
    std::vector<std::pair<int, double>> least_loops(const Price& price) const;

    // The part with the least price, if it cannot be divided and was not searched at this price.
    std::optional<WholePart> least_whole(const Price& price);

    // Takes up the price of a part that cannot be divided, found by a search of its tiles.
    void searched(std::size_t place, const Price& price, double least);

    // Divides parts until the least price is at least `bar`, or belongs to a part that cannot be divided, or `most` layers of
    // parts were bounded; returns the number of these.
    std::size_t refine(const Price& price, double bar, std::size_t most);

    // The least costs of parts of one order after the same decisions, and their prices at the last price of `refine`.
    void evaluate(std::vector<GroupPart>& parts);

    // The parts of a part by the one division that raises the price most; empty where it cannot be divided.
    std::vector<GroupPart> divided_at(const GroupBox& part, const Price& price);

    // How many residencies an operand from outside may have in an order, by its place among the operands of a layer from outside;
    // 0 where there is no such operand.
    int residencies(std::size_t order, std::size_t layer, std::size_t slot) const;

    const FusedSegment& segment() const { return segment_; }
    const std::vector<GroupPart>& parts() const { return parts_; }
    const std::vector<LoopOrder>& orders() const { return orders_; }
    const std::vector<std::vector<int>>& shared() const { return shared_; }

private:
    using Ranked = std::pair<double, std::size_t>;  // a price, and the place of the part
    using Queue = std::priority_queue<Ranked, std::vector<Ranked>, std::greater<>>;

    int choices_of(std::size_t layer, int tensor, const LoopOrder& order) const;
    const std::vector<bool>& orders_with(Loops64 several);
    void halve(const GroupBox& part, std::size_t loop, std::vector<GroupPart>& found) const;
    std::vector<std::vector<GroupPart>> divided(const std::vector<GroupPart>& parts);
    void rank(std::size_t place);
    void rank_at(const Price& price);

    const FusedSegment& segment_;
    std::vector<LayerLeast> layers_;
    std::vector<std::optional<Product>> products_;  // by layer
    HomeLevel home_;
    std::vector<LoopOrder> orders_;
    std::vector<std::vector<int>> shared_;
    std::vector<GroupPart> parts_;
    std::vector<std::size_t> gone_;         // places of divided parts, which have no price
    Price price_{0, 0};                     // the last price at which parts were divided; at this price:
    std::map<Decisions, Queue> waiting_;    // parts that may be divided, by their decisions, the least price first
    Queue whole_;                           // all other parts
    std::map<Loops64, std::vector<bool>> tried_;    // see `orders_with`
    std::map<std::tuple<int, std::size_t, int>, int> choices_;  // residencies by order, layer and operand, as far as asked for
    std::size_t bounded_ = 0;   // bounded layers of parts, eight parts counted as one
};

}  // namespace fadiff
