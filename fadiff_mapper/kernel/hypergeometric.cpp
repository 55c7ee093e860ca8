#include "hypergeometric.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace fadiff::sparse {

using Real = long double;  // 64 bits of mantissa on x86

constexpr int FACTORIALS = 9, TERMS = 17;
constexpr Real TINY = std::numeric_limits<Real>::min();

// Lanczos' approximation for extended precision: k! is ((k + G + 1/2) / e) ** (k + 1/2) times a quotient of two polynomials
// in k + 1, which is near 1. Figures of Boost.Math; the denominator is z * (z + 1) * ... * (z + 15).
constexpr Real G = 12.2252227365970611572265625L;
constexpr std::array<Real, TERMS> NUMERATOR = {
    2715894658327.717377557655133124376674911L,   3590179526097.912105038525528721129550434L,
    2223966599737.814969312127353235818710172L,   856940834518.9562481809925866825485883417L,
    229885871668.749072933597446453399395469L,    45526171687.54610815813502794395753410032L,
    6884887713.165178784550917647709216424823L,   811048596.1407531864760282453852372777439L,
    75213915.96540822314499613623119501704812L,   5509245.417224265151697527957954952830126L,
    317673.5368435419126714931842182369574221L,   14268.27989845035520147014373320337523596L,
    489.3618720403263670213909083601787814792L,   12.38941330038454449295883217865458609584L,
    0.2183627389504614963941574507281683147897L,  0.002393749522058449186690627996063983095463L,
    0.1229541408909435212800785616808830746135e-4L};

static std::array<Real, TERMS> denominator() {
    std::array<Real, TERMS> rising = {1};
    for (int k = 0; k < TERMS - 1; ++k)
        for (int power = k + 1; power >= 0; --power) rising[power] = k * rising[power] + (power ? rising[power - 1] : 0);
    return rising;
}

// Even and odd powers apart; in powers of 1 / z, the last coefficient first, so that they stay small.
static Real polynomial(const std::array<Real, TERMS>& coefficients, Real z) {
    const bool rising = z <= 1;
    const auto at = [&](int row) { return coefficients[rising ? TERMS - 1 - row : row]; };
    const Real square = rising ? z * z : 1 / (z * z);
    std::array<Real, 2> sum = {at(0), at(1)};
    for (int row = 2; row < TERMS; ++row) sum[row % 2] = sum[row % 2] * square + at(row);
    return sum[0] + sum[1] * (rising ? z : 1 / z);
}

static Real lanczos_sum(Real z) {
    static const std::array<Real, TERMS> DENOMINATOR = denominator();
    return polynomial(NUMERATOR, z) / polynomial(DENOMINATOR, z);
}

struct Power {  // (base * e ** shift) ** exponent
    Real base, exponent;
    std::int64_t shift;
};

using Powers = std::array<Power, FACTORIALS>;  // largest exponent first

// Moves one power behind all with exponents no smaller; the others are in order.
static void sink(Powers& powers, int row) {
    for (; row + 1 < FACTORIALS && powers[row].exponent <= powers[row + 1].exponent; ++row)
        std::swap(powers[row], powers[row + 1]);
}

static void join(Power& into, const Power& from) { into.base *= from.base, into.shift += from.shift; }

// Joins the bases of the two largest exponents until little is left of the second, so that large powers cancel before they
// are taken. False where the ratio is too small for a number.
static bool cancel(Powers& powers, std::int64_t& steps) {
    do {
        powers[0].exponent -= powers[1].exponent;
        join(powers[1], powers[0]);
        if (powers[1].base < TINY && powers[1].exponent != 0) return false;
        sink(powers, 0);
    } while (powers[1].exponent > 1 && --steps >= 0);
    return true;
}

static Real product_of(Powers powers) {
    int last = FACTORIALS - 1;
    while (last && powers[last].exponent == 0) --last;
    for (; last > 0; --last)  // powers of equal exponents become one
        for (; last && powers[last - 1].exponent == powers[last].exponent; --last) {
            join(powers[last - 1], powers[last]);
            powers[last].exponent = 0;
            sink(powers, last);
        }
    const auto base = [&](int row) { return powers[row].base * std::exp(Real(powers[row].shift)); };
    Real product = std::pow(base(0), powers[0].exponent);
    for (int row = 1; row < FACTORIALS && powers[row].exponent > 0; ++row) {
        if (product < TINY) return 0;
        const Real exponent = powers[row].exponent;
        product *= exponent == 1 ? base(row) : exponent == 0.5L ? std::sqrt(base(row)) : std::pow(base(row), exponent);
    }
    return product;
}

Real ratio_of_factorials(const Draw& draw, std::int64_t& steps) {
    if ((steps -= STEPS) < 0) return std::numeric_limits<Real>::quiet_NaN();
    const auto& [x, r, n, total] = draw;
    const std::array<std::int64_t, FACTORIALS> counts = {n, r, total - n, total - r, total, x, n - x, r - x, total - n - r + x};
    Powers powers;
    std::array<Real, FACTORIALS> sums;
    for (int row = 0; row < FACTORIALS; ++row) {
        const bool above = row < 4;
        const Real count = Real(counts[row]), base = count + G + 0.5L;
        powers[row] = {above ? base : 1 / base, count + 0.5L, above ? -1 : 1};
        sums[row] = lanczos_sum(count + 1);
    }
    std::stable_sort(powers.begin(), powers.end(), [](const Power& a, const Power& b) { return a.exponent > b.exponent; });
    const bool vanished = !cancel(powers, steps);
    if (steps < 0) return std::numeric_limits<Real>::quiet_NaN();
    if (vanished) return 0;
    return product_of(powers) * (sums[0] * sums[1] * sums[2] * sums[3] / (sums[4] * sums[5] * sums[6] * sums[7] * sums[8]));
}

}  // namespace fadiff::sparse
