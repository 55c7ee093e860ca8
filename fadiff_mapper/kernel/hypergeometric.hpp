// The hypergeometric distribution, to the last bit of the library that Timeloop calls (Boost.Math 1.74), where
// `long double` has 64 bits of mantissa.
//
// Order of operations included: products of factorials for tensors of up to 170 words, products of prime powers for larger
// ones, Lanczos' approximation beyond the primes that the library has.

#pragma once

#include <vector>

namespace fadiff::sparse {

// Probabilities of x marked words in a tile of n words, of r marked ones in all: one for each x and r. Where these would
// take some seconds, logarithms of factorials take their place, with 13 digits or so.
std::vector<double> hypergeometric_pdf(const std::vector<double>& x, const std::vector<double>& r, double n, double total);

}  // namespace fadiff::sparse
