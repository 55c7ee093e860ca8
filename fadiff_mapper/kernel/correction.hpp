// Cycles of measured hardware from the features of a mapping, for searches (calibration/features.py and calibration/correction.py
// explain the features; calibration/calibrate.py fits the coefficients).

#pragma once

#include <vector>

#include "pack.hpp"

namespace fadiff {

struct Correction {
    enum Program { AS_MAPPED, GEMMINI };
    static constexpr int FEATURES = 14;

    static constexpr double BLOCK = 16, ROUNDING = 1e-9, BEAT = 16, LINE = 64, PAGE = 4096, CACHE = 1 << 18, WIDEST = 16;

    Program program = AS_MAPPED;
    std::vector<double> bounds;                                      // [D]
    std::vector<int> reduced, windows, produced, positions, groups;  // dimensions by their roles
    std::vector<int> sliding;                                        // positions that share a rank of the inputs with a window
    int inputs = 0;                                                  // the data space
    int stream = -1;                                                 // the dimension that streams through the array; -1: none
    double word_bytes = 1, norm = 1;
    std::vector<double> coefficients;                                // [FEATURES]; cycles per unit of each feature

    // Of the mapping in one lane.
    double cycles(const Layer& layer, const MappingPack& pack, int lane) const;

private:
    struct Run;
    Run run_of(const std::vector<double>& inner, const std::vector<double>& outer, double side) const;
    double price(const Layer& layer, const Run& run) const;
};

}  // namespace fadiff
