// One discrete draw of all tiling factors with the derivative of its expectation (FADiff eqs. (1)-(3)).
//
// The estimator is that of Bengio et al. (2013): forward a discrete choice, backward the derivative of a smooth
// stand-in, here the expectation of eq. (3) under the softmax of eq. (2). Each draw depends on what the places further
// in left, so this is a loop.

#pragma once

#include <cstddef>
#include <cstdint>

namespace fadiff {

// Tables of W members over P places, D dimensions, N divisors, as gradient/gumbel_softmax.py (FactorPlaces) has them.
struct DrawTables {
    std::size_t places, dims, width;
    const double* divisor;           // [W][D][N]
    const bool* completable;         // [W][P][D][N][N]
    const std::int64_t* left;        // [W][D][N][N]
    const std::int64_t* start;       // [W][D]
};

// Draws B columns. theta [P][D][B]: log2 of the continuous factors; noise [P][D][B][N]: Gumbel noise, or null; member
// [B]; alpha and tau: sharpness of eq. (1) and temperature of eq. (2). Results, [P][D][B]: hard, the divisors drawn;
// slope, the derivative of each expectation by its own theta.
template <typename Noise>
void draw_columns(const DrawTables& tables, std::size_t batch, const double* theta, const Noise* noise,
                  const std::int64_t* member, double alpha, double tau, double* hard, double* slope);

}  // namespace fadiff
