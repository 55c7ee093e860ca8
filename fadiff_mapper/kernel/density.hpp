// How the nonzeros of a tensor are distributed: how many a tile may hold, and how likely each number is.
//
// The rules, rounding included, are those of Timeloop's density models. Counts are rounded down from products such as
// words * (1 - density), which often lie on a whole number up to the last bit, so probabilities of draws without
// replacement are those of Boost.Math to the last bit, where `long double` has 64 bits of mantissa.

#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

namespace fadiff::sparse {

using Numbers = std::vector<double>;

// The extents of a tile: its words and, of a matrix, how many rows they lie in.
struct Box {
    double words = 1, rows = 1;

    double columns() const { return words / rows; }
};

// Occupancies, ascending, and their probabilities.
struct Histogram {
    Numbers occupancies, probabilities;
};

// Timeloop ends on the mapping.
struct Aborted : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct DensityModel {
    enum Kind {
        FIXED,           // every tile has the same density; of a fraction of a word the next numbers below and above occur
        HYPERGEOMETRIC,  // nonzeros are drawn without replacement from the words of the tensor
        BANDED           // a square matrix whose nonzeros lie within `band_width` diagonals of the main one
    };
    Kind kind = FIXED;
    double density = 1;                // FIXED: share of nonzeros
    double nonzeros = 0;               // HYPERGEOMETRIC: of the tensor
    std::int64_t band_width = 0;
    Box tensor;

    Histogram histogram(const Box& tile) const;     // the occupancies that have a probability
    double least(const Box& tile) const;            // the least occupancy that Timeloop looks at
    double most(const Box& tile) const;
    double expected(const Box& tile) const;
    double empty(const Box& tile) const;            // the probability that a tile holds no nonzero
    // The same within a tile `outer`, for each number of nonzeros in it.
    Numbers empty_within(const Box& tile, const Box& outer, const Numbers& occupancies) const;
    // The most elements with a nonzero in one fiber of them.
    double most_elements(const Box& fiber, const Box& element) const;
};

// Probabilities of x marked words in a tile of n words, of r marked ones in all, to the last bit of the library that Timeloop calls
// (Boost.Math 1.74): one for each x and r. Where these would take some seconds, logarithms of factorials take their place, with
// 13 digits or so.
Numbers hypergeometric_pdf(const Numbers& x, const Numbers& r, double n, double total);

}  // namespace fadiff::sparse
