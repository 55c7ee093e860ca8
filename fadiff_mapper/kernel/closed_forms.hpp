// The closed forms of one layer in one tile size as plain numbers, for tests: no vector may pass to the bindings.

#pragma once

#include "fused_segment.hpp"

namespace fadiff {

struct ClosedForms {
    struct Cut {
        double steps, points, largest, needed;  // of LoopCut
    };
    std::vector<Cut> loops;
    double computed, fetched, held;  // of the layer and one of its data spaces
    double lying, outlasting;        // words of the intermediate that it makes; 0 of the last layer
};

// `across`: the loops along which words stay; everything else as for `cut_layers` and `fetched`.
ClosedForms closed_forms(const FusedSegment& segment, const std::vector<int>& dims, const std::vector<double>& sizes,
                         const std::vector<Loops64>& retained, int layer, int tensor, Loops64 across);

}  // namespace fadiff
