// The schemes of a map space, one after the other.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "layer.hpp"
#include "map_space.hpp"

namespace fadiff {

// The spatial choices of a part, and what levels keep. Where windows are handed on between neighbours, or wires cost
// energy, mappings differ by layout; elsewhere the first one stands for all.
struct Scheme {
    std::vector<double> spatial;                 // [L][D]
    std::vector<std::uint8_t> keep;              // [L][T]
    std::vector<Layout> layouts;                 // of all levels, [L][D]; none: any, which is bounded but not searched
};

// What the constraints leave open on the fan-out below a level (`LevelSpace.spatial`). From the innermost loop outwards the
// dimensions are `inner`, then `between` in any order, then `outer`.
struct OpenFanOut {
    std::vector<std::vector<double>> factors;       // by dimension
    std::vector<std::uint8_t> inner, between, outer;
    int split = -1;                                 // loops of that order which lie on X; -1: any number
    std::vector<std::uint8_t> on_x, on_y;           // [D]; whether the loop may lie on the axis; on none of one unit

    // How many of `between` lie on X where there is a split, whatever their factor.
    int between_on_x() const { return std::clamp(split - int(inner.size()), 0, int(between.size())); }
};

// What schemes are made of.
struct OpenSchemes {
    std::vector<double> bounds;                     // [D]
    std::vector<OpenFanOut> fan_outs;               // by level, below it
    std::vector<std::vector<double>> in_time;       // [D]; iterations that temporal loops can have together, ascending
    std::vector<std::vector<std::uint8_t>> keeps;   // choices of what the levels keep, [L][T] each
    double least = 1;                               // product of all spatial factors at least
};

// Goes through every scheme of which the meshes have room and whose temporal loops can reach the bounds.
class SchemeWalk {
public:
    // `units`: of the arithmetic, then of the levels, as of the layer.
    SchemeWalk(std::vector<Unit> units, OpenSchemes open);

    // The next scheme, without layouts, which stays as it is until the one after it; null: there is none.
    const Scheme* next();

    // Every layout of a scheme's spatial loops that the meshes have room for. Loops of one iteration lie where the constraints
    // would have them with more, as a search may go on from there.
    std::vector<Layout> layouts(const Scheme& scheme) const;

    // Units at work in the scheme that was given last.
    double units() const { return levels_[0].units; }

    std::size_t cells() const { return scheme_.spatial.size(); }  // L * D

private:
    using Extents = std::pair<double, double>;  // units along X and Y

    // Spatial factors that a level may have, [D], and the extents that its layouts can give them.
    struct Spread {
        std::vector<double> factor;
        std::set<Extents> extents;
    };
    struct Level {  // its own factors and those further out are chosen
        std::size_t spread = 0;         // the next of the level's spreads
        std::vector<double> left;       // [D]; iterations of the loops that are not chosen
        std::set<Extents> taken;        // units that the loops can take
        double units = 1;               // product of the spatial factors
    };

    bool choose(std::size_t level);
    bool reaches_bounds() const;

    std::vector<Unit> units_;                   // the first ones: those below each level
    OpenSchemes open_;
    std::vector<std::vector<Spread>> spreads_;  // by level
    std::vector<Level> levels_;         // [L + 1]; the last one is outside of all levels
    std::size_t level_;                 // whose spread is chosen next; the innermost one's change fastest
    std::size_t keep_;                  // the next of the choices of what levels keep
    Scheme scheme_;
};

}  // namespace fadiff
