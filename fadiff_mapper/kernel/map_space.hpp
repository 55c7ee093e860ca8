// The map space of one problem as tables (search/mapspace/build.py, FactorTables), mappings as points of it, and their changes.

#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "layer.hpp"

namespace fadiff {

using Number = std::int16_t;  // number of a divisor in the ascending list of its dimension's divisors; 1 has number 0

// The order and the axes of one level's spatial loops.
struct Layout {
    std::vector<std::uint8_t> order;  // [D]; dimensions, innermost first
    std::vector<std::uint8_t> on_y;   // [D]; by dimension
};

// A decision with several candidates, other than a factor.
struct Decision {
    enum Kind { ORDER, LAYOUT, KEEP };
    Kind kind;
    int level, tensor;
};

// Consecutive numbers in memory.
struct Numbers {
    const Number *first, *last;  // `last` is behind the last number

    const Number* begin() const { return first; }
    const Number* end() const { return last; }
    int size() const { return int(last - first); }
    Number operator[](int i) const { return first[i]; }
};

struct MapSpace {
    int places = 0, dims = 0, tensors = 0, width = 0;  // P, D, T, N
    std::vector<double> divisor;                // [D][N]
    std::vector<Number> quotient, product;      // [D][N][N]; negative: no divisor of the bound
    std::vector<std::uint8_t> allowed;          // [P][D][N]
    std::vector<std::uint8_t> completable;      // [P][D][N][N]; see FactorTables
    std::vector<Number> bound;                  // [D]; number of the bound itself
    std::vector<Number> parts;                  // lists of the divisors above 1 that a loop can give away, in a row
    std::vector<int> parts_begin;               // [P][D][N] and the end; begin of each list in `parts`
    std::vector<Dims> movable;                  // [P]; dimensions whose loop has a choice
    std::vector<std::vector<int>> growable;     // [D]; places whose loop may have several iterations
    // With residuals any whole number within limits is a factor, in place of the divisors above.
    std::vector<double> least, most;            // [P][D], or none: no residuals
    std::vector<double> points;                 // [D]; the bounds
    std::vector<std::vector<std::vector<std::uint8_t>>> orders;  // [L]: candidate orders, [n][D]
    std::vector<std::vector<Layout>> layouts;                    // [L]: candidate layouts, [n]
    std::vector<std::uint8_t> keep;             // [L][T]; data spaces that must be kept
    std::vector<std::pair<int, int>> open;      // (level, data space) that may be kept or bypassed
    std::vector<Decision> decisions;            // all open decisions from which moves draw; some occur twice
    double available = 0, min_parallelism = 0;  // units of the array; least share of it that must be used

    bool residual() const { return !most.empty(); }
    const Number* quotients(int d, Number whole) const { return &quotient[(std::size_t(d) * width + whole) * width]; }
    Numbers parts_of(int place, int d, Number number) const {
        const int* begin = &parts_begin[(std::size_t(place) * dims + d) * width + number];
        return {parts.data() + begin[0], parts.data() + begin[1]};
    }
    const Number* products(int d, Number by) const { return &product[(std::size_t(d) * width + by) * width]; }
    bool may_reorder(int level) const {
        return std::any_of(decisions.begin(), decisions.end(), [&](const Decision& decision) {
            return decision.kind == Decision::ORDER && decision.level == level;
        });
    }
    bool may(int place, int d, Number number) const { return allowed[(std::size_t(place) * dims + d) * width + number]; }
    bool can_complete(int place, int d, Number rest, Number number) const {
        return completable[((std::size_t(place) * dims + d) * width + rest) * width + number];
    }
};

// Fills in the parts and `growable` from the tables.
inline void list_parts(MapSpace& space) {
    space.growable.assign(space.dims, {});
    for (int d = 0; d < space.dims; ++d)
        for (int place = 0; place < space.places; ++place) {
            bool grows = space.residual() && (space.movable[place] >> d & 1);
            for (Number n = 1; !space.residual() && n < space.width; ++n) grows |= space.may(place, d, n);
            if (grows) space.growable[d].push_back(place);
        }
    space.parts_begin.assign(1, 0);
    for (int place = 0; !space.residual() && place < space.places; ++place)
        for (int d = 0; d < space.dims; ++d)
            for (Number whole = 0; whole < space.width; ++whole) {
                const Number* left = space.quotients(d, whole);
                for (Number part = 1; whole <= space.bound[d] && part <= whole; ++part)
                    if (left[part] >= 0 && space.may(place, d, left[part])) space.parts.push_back(part);
                space.parts_begin.push_back(int(space.parts.size()));
            }
}

// A mapping with the numbers of its divisors.
struct Point {
    Mapping mapping;
    std::vector<Number> number;  // [P][D]

    Point(const Layer& layer) : mapping(layer), number(std::size_t(layer.places()) * layer.dims) {}

    // A factor by the number of its divisor; with residuals the factor itself, and the iterations of its last run.
    void set(const MapSpace& space, int place, int d, int value, int last = 0) {
        const std::size_t at = std::size_t(place) * space.dims + d;
        if (space.residual()) mapping.factor[at] = value, mapping.last[at] = last;
        else number[at] = Number(value), mapping.factor[at] = space.divisor[std::size_t(d) * space.width + value];
        mapping.looping[place] = (mapping.looping[place] & ~(Dims(1) << d)) | Dims(mapping.factor[at] > 1) << d;
    }
    Number get(const MapSpace& space, int place, int d) const { return number[std::size_t(place) * space.dims + d]; }
    void lay_out(const MapSpace& space, int level, const Layout& layout) {
        std::copy(layout.order.begin(), layout.order.end(), mapping.spatial_order.begin() + std::size_t(level) * space.dims);
        std::copy(layout.on_y.begin(), layout.on_y.end(), mapping.on_y.begin() + std::size_t(level) * space.dims);
    }
    void put_in_order(const MapSpace& space, int level, const std::vector<std::uint8_t>& order) {
        std::copy(order.begin(), order.end(), mapping.order.begin() + std::size_t(level) * space.dims);
    }
};

// A new value of one decision of a point.
struct Change {
    enum Kind : std::uint8_t { FACTOR, ORDER, LAYOUT, KEEP };
    Kind kind;
    int at;         // place of a factor; level
    int of;         // dimension of a factor, data space that is kept or not
    int to;         // number of the divisor (with residuals the factor itself), or of the candidate, or whether kept
    int last = 0;   // with residuals: iterations of the factor's last run
};

// The change of a factor to its value in another point.
inline Change factor_in(const MapSpace& space, const Point& other, int place, int dim) {
    const std::size_t at = std::size_t(place) * space.dims + dim;
    if (!space.residual()) return {Change::FACTOR, place, dim, other.number[at]};
    return {Change::FACTOR, place, dim, int(other.mapping.factor[at]), int(other.mapping.last[at])};
}

// The differences of a neighbour from a point. If a decision occurs twice, the last change counts.
using Changes = std::vector<Change>;

inline void apply(const MapSpace& space, const Change& change, Point& point) {
    switch (change.kind) {
        case Change::FACTOR: return point.set(space, change.at, change.of, change.to, change.last);
        case Change::ORDER: return point.put_in_order(space, change.at, space.orders[change.at][change.to]);
        case Change::LAYOUT: return point.lay_out(space, change.at, space.layouts[change.at][change.to]);
        case Change::KEEP: point.mapping.keep[std::size_t(change.at) * space.tensors + change.of] = std::uint8_t(change.to);
    }
}
inline void apply(const MapSpace& space, const Changes& changes, Point& point) {
    for (const Change& change : changes) apply(space, change, point);
}

// Turns a neighbour of `from` back into `from`.
inline void take_back(const MapSpace& space, const Point& from, const Changes& changes, Point& point) {
    const std::size_t dims = space.dims;
    const auto copy_level = [=](const std::vector<std::uint8_t>& of, int level, std::vector<std::uint8_t>& into) {
        std::copy_n(of.begin() + level * dims, dims, into.begin() + level * dims);
    };
    for (const Change& change : changes) switch (change.kind) {
        case Change::FACTOR: apply(space, factor_in(space, from, change.at, change.of), point); break;
        case Change::ORDER: copy_level(from.mapping.order, change.at, point.mapping.order); break;
        case Change::LAYOUT:
            copy_level(from.mapping.spatial_order, change.at, point.mapping.spatial_order);
            copy_level(from.mapping.on_y, change.at, point.mapping.on_y);
            break;
        case Change::KEEP: {
            const std::size_t cell = std::size_t(change.at) * space.tensors + change.of;
            point.mapping.keep[cell] = from.mapping.keep[cell];
        }
    }
}

// The point of a mapping of the space.
inline Point point_of(const Layer& layer, const MapSpace& space, const Mapping& mapping) {
    Point point(layer);
    point.mapping = mapping;
    if (space.residual()) {
        if (mapping.last.empty()) point.mapping.last = mapping.factor;
        for (double factor : mapping.factor)
            if (!(factor <= MOST_UNITS)) throw std::invalid_argument("a factor beyond all limits");
        return point;
    }
    if (!mapping.last.empty()) throw std::invalid_argument("residuals in a space without");
    for (int place = 0; place < space.places; ++place)
        for (int d = 0; d < space.dims; ++d) {
            const double* divisors = &space.divisor[std::size_t(d) * space.width];
            const double factor = mapping.factor[std::size_t(place) * space.dims + d];
            const double* found = std::find(divisors, divisors + space.width, factor);
            if (found == divisors + space.width) throw std::invalid_argument("a factor that divides no bound");
            point.set(space, place, d, Number(found - divisors));
        }
    return point;
}

}  // namespace fadiff
