// Random points of a map space, random small changes of a point, and all small changes.
//
// A shift takes a divisor of the factor of one loop and gives it to another loop of the same dimension, so that the
// product of the dimension's factors stays. An exchange is two shifts between the same two places in opposite
// directions: of two dimensions, which changes the shape of a tile and little of its size, or of one dimension, whose loops
// then swap divisors. A resplit draws anew how two places share their factors of one or several dimensions. All other
// decisions (loop order, keep or bypass, layout of spatial loops) change one at a time.
//
// With residuals any whole number may be a factor, so moves set factors to new values instead of moving divisors. Another
// loop of the dimension makes up for the change; the outermost loop takes the rest.

#pragma once

#include <algorithm>
#include <cmath>
#include <random>

#include "map_space.hpp"

namespace fadiff {

// Random numbers with the same sequence on every platform: the C++ standard fixes the engine, and the conversions are exact.
class Random {
public:
    explicit Random(std::uint64_t seed) : engine(seed) {}
    double uniform() { return double(engine() >> 11) * 0x1p-53; }          // in [0, 1)
    int below(int count) { return int(uniform() * count); }               // 0 ... count - 1

    std::vector<int> passing;  // scratch of random choices

private:
    std::mt19937_64 engine;
};

// A random point: place by place from the innermost, every dimension takes a random divisor whose quotient the places
// further out can take. `column` 0 keeps data spaces wherever it may, 1 bypasses them wherever it may inside the outermost
// level, other columns keep at random.
void draw_point(const Layer& layer, const MapSpace& space, int column, Random& random, Point& point);

// Turns `point`, which equals `from`, into a random neighbour and fills in its changes; returns whether it differs.
// `resplit_rate`: share of the moves of factors that are resplits.
bool move(const Layer& layer, const MapSpace& space, const Point& from, double resplit_rate, Random& random, Point& point,
          Changes& changes);

// As `move`, but takes over all factors of one random dimension from another point.
bool adopt(const Layer& layer, const MapSpace& space, const Point& from, const Point& other, Random& random, Point& point,
           Changes& changes);

// Replaces layouts of spatial loops that do not fit: a loop that grows in a full array often fits only if another loop
// changes its axis. Takes the first fitting layout from a random one on, if any fits, and adds the changes.
void fit_layouts(const Layer& layer, const MapSpace& space, Random& random, Point& point, Changes& changes);

// With residuals: gives the loops of one dimension new factors [P], whole numbers, and fills in the changes from `from`. Factors
// are cut off at the bound, and the outermost loop takes the rest. False where limits forbid this.
bool cut_off(const MapSpace& space, const Point& from, int dim, const std::vector<double>& factors, Changes& changes);

// The factors of one dimension, [P].
inline std::vector<double> factors_of(const MapSpace& space, const Point& point, int dim) {
    std::vector<double> factors;
    for (int place = 0; place < space.places; ++place)
        factors.push_back(point.mapping.factor[std::size_t(place) * space.dims + dim]);
    return factors;
}

// A factor within the limits of its place.
inline double limited(const MapSpace& space, int place, int dim, double factor) {
    const std::size_t at = std::size_t(place) * space.dims + dim;
    return std::min(std::max(factor, std::max(space.least[at], 1.0)), space.most[at]);
}

// Calls `visit(Changes)` with neighbours of a mapping with residuals: one loop has an iteration more or less, or as many as a run
// more or less takes, or all that are left; and no other loop, or each loop that can, makes up for the change.
template <typename Visit>
void each_factor(const MapSpace& space, const Point& from, Visit visit) {
    Changes changes;
    for (int loop = 0; loop < space.places * space.dims; ++loop) {
        const int place = loop / space.dims, d = loop % space.dims;
        if (!(space.movable[place] >> d & 1)) continue;
        std::vector<double> factors = factors_of(space, from, d);
        double left = space.points[d];
        for (int inner = 0; inner < place; ++inner) left = std::ceil(left / factors[inner]);
        const double old = factors[place], runs = std::ceil(left / old);
        const double longer = std::ceil(left / std::max(runs - 1, 1.0)), shorter = std::ceil(left / (runs + 1));
        for (double wanted : {old - 1, old + 1, shorter, longer, left}) {
            const double now = limited(space, place, d, wanted);
            if (now == old) continue;
            factors[place] = now;
            if (cut_off(space, from, d, factors, changes)) visit(changes);
            for (int other : space.growable[d]) {
                const double before = factors[other];
                const double makes_up = limited(space, other, d, std::ceil(old * before / now));
                if (other == place || makes_up == before) continue;
                factors[other] = makes_up;
                if (cut_off(space, from, d, factors, changes)) visit(changes);
                factors[other] = before;
            }
        }
    }
}

// Sampled layouts of one level's spatial loops that count as neighbours of a mapping, as a level has up to LAYOUTS of
// search/layer_family.py: a limit on time, set by hand.
constexpr int LAYOUTS_TRIED = 12;

// Calls `visit(Changes)` with every neighbour that is one shift or one other decision away, and with a sample of the layouts.
template <typename Visit>
void each_neighbour(const Layer& layer, const MapSpace& space, const Point& from, Random& random, Visit visit) {
    if (space.residual()) each_factor(space, from, visit);
    for (int loop = 0; !space.residual() && loop < space.places * space.dims; ++loop) {
        const int place = loop / space.dims, d = loop % space.dims;
        if (!(space.movable[place] >> d & 1)) continue;
        const Number giver = from.get(space, place, d);
        for (Number part : space.parts_of(place, d, giver))
            for (int target : space.growable[d]) {
                if (target == place) continue;
                const Number more = space.products(d, part)[from.get(space, target, d)];
                if (more < 0 || !space.may(target, d, more)) continue;
                visit(Changes{{Change::FACTOR, place, d, space.quotients(d, giver)[part]}, {Change::FACTOR, target, d, more}});
            }
    }
    for (int level = 0; level < layer.levels; ++level)
        for (int i = 0; space.may_reorder(level) && i < int(space.orders[level].size()); ++i)
            visit(Changes{{Change::ORDER, level, 0, i}});
    for (int level = 0; level < layer.levels; ++level) {
        const int count = int(space.layouts[level].size());
        for (int i = 0; count > 1 && i < std::min(count, LAYOUTS_TRIED); ++i)
            visit(Changes{{Change::LAYOUT, level, 0, count > LAYOUTS_TRIED ? random.below(count) : i}});
    }
    for (auto [level, tensor] : space.open)
        visit(Changes{{Change::KEEP, level, tensor, !from.mapping.keep[std::size_t(level) * layer.tensors + tensor]}});
}

}  // namespace fadiff
