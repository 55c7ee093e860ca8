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

// The spatial choices of a part, and the data spaces that levels keep. Costs depend on the layout only if neighbours hand on
// words of windows, or wires cost energy; else the first layout stands for all.
struct Scheme {
    std::vector<double> spatial;                 // [L][D]
    std::vector<std::uint8_t> keep;              // [L][T]
    std::vector<Layout> layouts;                 // of all levels, [L][D]; empty: any layout, which is bounded but not searched
};

// Spatial loops that the constraints leave open on the fan-out below a level (`LevelSpace.spatial`). From the innermost loop
// outwards the dimensions are `inner`, then `between` in any order, then `outer`.
struct OpenFanOut {
    std::vector<std::vector<double>> factors;       // by dimension
    std::vector<std::uint8_t> inner, between, outer;
    int split = -1;                                 // number of leading loops of this order on X; -1: any number
    std::vector<std::uint8_t> on_x, on_y;           // [D]; whether the loop may lie on the axis; false on an axis of one unit

    // With a split, the number of loops in `between` that lie on X, whatever their factor.
    int between_on_x() const { return std::clamp(split - int(inner.size()), 0, int(between.size())); }
};

// The choices from which schemes are made.
struct OpenSchemes {
    std::vector<double> bounds;                     // [D]
    std::vector<OpenFanOut> fan_outs;               // by level, below it
    std::vector<std::vector<double>> in_time;       // [D]; iterations that temporal loops can have together, ascending
    std::vector<std::vector<std::uint8_t>> keeps;   // choices of the data spaces that levels keep, [L][T] each
    double least = 1;                               // least product of all spatial factors
};

// Goes through every scheme that fits the meshes and whose temporal loops can reach the bounds.
class SchemeWalk {
public:
    // `units`: as in Layer, the arithmetic first, then the levels.
    SchemeWalk(std::vector<Unit> units, OpenSchemes open);

    // The next scheme, without layouts, valid until the next call; null: there is none.
    const Scheme* next();

    // Every layout of a scheme's spatial loops that fits the meshes. Loops of one iteration get a position that the constraints
    // allow for more iterations, as a search may start from the layout.
    std::vector<Layout> layouts(const Scheme& scheme) const;

    // Units at work in the last scheme.
    double units() const { return levels_[0].units; }

    std::size_t cells() const { return scheme_.spatial.size(); }  // L * D

private:
    using Extents = std::pair<double, double>;  // units along X and Y

    // Spatial factors that a level may have, [D], and the extents that its layouts can give them.
    struct Spread {
        std::vector<double> factor;
        std::set<Extents> extents;
    };
    struct Level {  // its factors and all factors further out are chosen
        std::size_t spread = 0;         // number of the level's next spread
        std::vector<double> left;       // [D]; iterations left for the loops that are not chosen
        std::set<Extents> taken;        // units that the chosen loops can take
        double units = 1;               // product of the spatial factors
    };

    bool choose(std::size_t level);
    bool reaches_bounds() const;

    std::vector<Unit> units_;                   // entry l: the units below level l
    OpenSchemes open_;
    std::vector<std::vector<Spread>> spreads_;  // by level
    std::vector<Level> levels_;         // [L + 1]; the last entry is outside all levels
    std::size_t level_;                 // the level whose spread is chosen next; spreads of the innermost level change fastest
    std::size_t keep_;                  // number of the next choice of kept data spaces
    Scheme scheme_;
};

}  // namespace fadiff
