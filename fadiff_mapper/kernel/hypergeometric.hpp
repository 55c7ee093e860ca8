// The hypergeometric distribution of tensors with more words than Boost.Math has primes for.

#pragma once

#include <cstdint>

namespace fadiff::sparse {

// Marked words in a tile, marked words in all, words of the tile, words in all.
struct Draw {
    std::int64_t x, r, n, total;
};

// The probability of x marked words in a tile, to the last bit of Boost.Math 1.74. Takes its steps off `steps`, and
// `STEPS` for all that they do not measure (4 us); below 0 it gives up, and the result is no number.
constexpr std::int64_t STEPS = 200;
long double ratio_of_factorials(const Draw& draw, std::int64_t& steps);

}  // namespace fadiff::sparse
