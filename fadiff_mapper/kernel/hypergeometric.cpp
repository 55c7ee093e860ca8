// The hypergeometric distribution in the order of operations of Boost.Math: products of factorials for tensors of up to 170 words,
// products of prime powers for larger ones, Lanczos' approximation beyond the primes that the library has.

#include "density.hpp"

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>

namespace fadiff::sparse {

using Real = long double;  // 64 bits of mantissa on x86
using Whole = std::int64_t;

// Limits of Boost.Math: its table of factorials, and the last prime but one up to which it factorizes.
constexpr int MOST_FACTORIAL = 170;
constexpr int MOST_PRIME = 104'723;
// Primes times occupancies above which prime powers take too long (some seconds) and logarithms of factorials take their
// place, with 13 digits or so.
constexpr double MOST_PRIME_WORK = 30e6;
// Words from which the series of log k! is exact to extended precision: its next term is below 1e-24 there.
constexpr int STIRLING = 1024;
// Steps of Lanczos' approximation for one tile from which logarithms take its place, so that a search of
// tensors with millions of words keeps its time. A probability takes some 250 steps, so tiles with up to 300,000 nonzeros
// are within; of boxes of one or two words it takes up to half as many as the tensor has words. Each has STEPS for all that
// the joins of bases do not measure.
constexpr Whole MOST_STEPS = 2'000'000, STEPS = 200;

// k! for k up to MOST_FACTORIAL, correctly rounded: the product is kept in two parts.
static const std::vector<Real>& factorials() {
    static const std::vector<Real> table = [] {
        std::vector<Real> values = {1};
        Real rest = 0;
        for (int k = 1; k <= MOST_FACTORIAL; ++k) {
            const Real high = values.back() * k;
            const Real low = rest * k + std::fma(values.back(), Real(k), -high);
            values.push_back(high + low);
            rest = low - (values.back() - high);
        }
        return values;
    }();
    return table;
}

static const std::vector<Whole>& primes() {
    static const std::vector<Whole> found = [] {
        std::vector<bool> composite(MOST_PRIME + 1);
        std::vector<Whole> values;
        for (Whole p = 2; p <= MOST_PRIME; ++p) {
            if (composite[p]) continue;
            values.push_back(p);
            for (Whole multiple = p * p; multiple <= MOST_PRIME; multiple += p) composite[multiple] = true;
        }
        return values;
    }();
    return found;
}

static Real by_factorials(Whole x, Whole r, Whole n, Whole total) {
    const std::vector<Real>& table = factorials();
    const Real factors[] = {table[r], table[total - n], table[total - r]};
    const Real divisors[] = {table[total], table[x], table[n - x], table[r - x], table[total - n - r + x]};
    Real result = table[n];  // factors and divisors in turn, so that it stays near 1
    for (int f = 0, d = 0; f < 3 || d < 5;) {
        while (d < 5 && (result >= 1 || f == 3)) result /= divisors[d++];
        while (f < 3 && (result <= 1 || d == 5)) result *= factors[f++];
    }
    return result;
}

// A power with the multiplications that Boost.Math makes.
static Real power(Real base, int exponent) {
    if (exponent < 0) return 1 / power(base, -exponent);
    if (exponent > 8) return std::pow(base, Real(exponent));
    if (exponent <= 1) return exponent ? base : 1;
    const Real half = power(base, exponent / 2);
    return exponent % 2 ? base * half * half : half * half;
}

// The product of partial results, large and small ones in turn.
static Real joined(const std::vector<Real>& latest_first) {
    std::vector<Real> large, small;
    for (Real part : latest_first) (part >= 1 ? large : small).push_back(part);
    Real product = 1;
    for (std::size_t l = 0, s = 0; l < large.size() || s < small.size();) {
        while (l < large.size() && (product <= 1 || s == small.size())) product *= large[l++];
        while (s < small.size() && (product >= 1 || l == large.size())) product *= small[s++];
    }
    return product;
}

// The product of prime powers, smallest prime first; begun anew where it leaves the range.
static Real by_primes(std::uint32_t x, std::uint32_t r, std::uint32_t n, std::uint32_t total) {
    std::vector<Real> parts;
    Real product = 1;
    for (Whole prime : primes()) {
        if (prime > total) break;
        int exponent = 0;
        for (std::uint64_t power = prime; power <= total; power *= prime) {
            const std::uint32_t base = std::uint32_t(power);
            exponent += int(n / base + r / base + (total - n) / base + (total - r) / base)
                - int(total / base + x / base + (n - x) / base + (r - x) / base + (total - n - r + x) / base);
        }
        if (!exponent) continue;
        const Real factor = power(Real(prime), exponent);
        if (factor > 1 ? LDBL_MAX / factor < product : LDBL_MIN / factor > product) {
            parts.insert(parts.begin(), product);
            product = factor;
        } else {
            product *= factor;
        }
    }
    if (parts.empty()) return product;
    parts.insert(parts.begin(), product);
    return joined(parts);
}

// log k!, by Stirling's series where k is large.
static Real log_factorial(Whole k) {
    static const std::vector<Real> first = [] {
        std::vector<Real> values = {0};
        for (int i = 1; i < STIRLING; ++i) values.push_back(values.back() + std::log(Real(i)));
        return values;
    }();
    if (k < STIRLING) return first[k];
    const Real large = Real(k), inverse = 1 / large, square = inverse * inverse;
    return large * std::log(large) - large + std::log(2 * Real(3.14159265358979323846) * large) / 2
        + inverse * (Real(1) / 12 - square * (Real(1) / 360 - square / 1260));
}

static Real by_logarithms(Whole x, Whole r, Whole n, Whole total) {
    return std::exp(log_factorial(n) + log_factorial(total - n) - log_factorial(total) + log_factorial(r)
                    + log_factorial(total - r) - log_factorial(x) - log_factorial(n - x) - log_factorial(r - x)
                    - log_factorial(total - n - r + x));
}

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
static bool cancel(Powers& powers, Whole& steps) {
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

// By Lanczos' approximation. Takes its steps off `steps`; below 0 it gives up, and the result is no number.
static Real by_lanczos(Whole x, Whole r, Whole n, Whole total, Whole& steps) {
    if ((steps -= STEPS) < 0) return std::numeric_limits<Real>::quiet_NaN();
    const std::array<Whole, FACTORIALS> counts = {n, r, total - n, total - r, total, x, n - x, r - x, total - n - r + x};
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

Numbers hypergeometric_pdf(const Numbers& x, const Numbers& r, double n, double total) {
    const auto smaller_primes = [&] { return std::lower_bound(primes().begin(), primes().end(), Whole(total)) - primes().begin(); };
    const bool factored = total <= MOST_PRIME && double(smaller_primes()) * double(x.size()) <= MOST_PRIME_WORK;
    Whole steps = MOST_STEPS;
    Numbers result;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const Whole marked = Whole(x[i]), all_marked = Whole(r[i]), tile = Whole(n), words = Whole(total);
        Real own = total <= MOST_FACTORIAL ? by_factorials(marked, all_marked, tile, words)
            : factored ? by_primes(std::uint32_t(marked), std::uint32_t(all_marked), std::uint32_t(tile), std::uint32_t(words))
            : total > MOST_PRIME ? by_lanczos(marked, all_marked, tile, words, steps)
                                 : std::numeric_limits<Real>::quiet_NaN();
        if (std::isnan(own)) own = by_logarithms(marked, all_marked, tile, words);
        result.push_back(double(std::clamp(own, Real(0), Real(1))));
    }
    return result;
}

}  // namespace fadiff::sparse
