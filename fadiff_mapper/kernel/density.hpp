// Distributions of the nonzeros of a tensor: the possible occupancies of a tile, and their probabilities.
//
// The rules, rounding included, are those of Timeloop's density models. Counts are rounded down from products such as
// words * (1 - density), which are often whole up to the last bit. So probabilities of draws without replacement equal
// those of Boost.Math to the last bit, where `long double` has 64 bits of mantissa.

#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

namespace fadiff::sparse {

using Numbers = std::vector<double>;

// The extents of a tile: its words and, of a matrix, its rows.
struct Box {
    double words = 1, rows = 1;

    double columns() const { return words / rows; }
};

// Occupancies, ascending, and their probabilities.
struct Histogram {
    Numbers occupancies, probabilities;
};

// Timeloop aborts on the mapping.
struct Aborted : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct DensityModel {
    enum Kind {
        FIXED,           // every tile has the same density; a fractional occupancy is the whole number below or above
        HYPERGEOMETRIC,  // nonzeros are drawn without replacement from the words of the tensor
        BANDED           // a square matrix whose nonzeros lie within `band_width` diagonals of the main one
    };
    Kind kind = FIXED;
    double density = 1;                // FIXED: share of nonzeros
    double nonzeros = 0;               // HYPERGEOMETRIC: of the tensor
    std::int64_t band_width = 0;
    Box tensor;

    Histogram histogram(const Box& tile) const;     // the occupancies with a probability above 0
    double least(const Box& tile) const;            // the least occupancy that Timeloop considers
    double most(const Box& tile) const;
    double expected(const Box& tile) const;
    double empty(const Box& tile) const;            // the probability that a tile holds no nonzero
    // The probability that a tile within a tile `outer` holds no nonzero, for each occupancy of `outer`.
    Numbers empty_within(const Box& tile, const Box& outer, const Numbers& occupancies) const;
    // The most elements of a fiber that hold a nonzero.
    double most_elements(const Box& fiber, const Box& element) const;
};

// Probabilities of x marked words in a tile of n words, if r of all `total` words are marked: one for each x and r. They equal,
// to the last bit, those of the library that Timeloop calls (Boost.Math 1.74). Where this would take some seconds, logarithms
// of factorials are used instead, with about 13 digits.
Numbers hypergeometric_pdf(const Numbers& x, const Numbers& r, double n, double total);

}  // namespace fadiff::sparse
