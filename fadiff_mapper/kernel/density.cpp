#include "density.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <map>
#include <string>

namespace fadiff::sparse {

using Real = long double;
using Whole = std::int64_t;

// Limits of Boost.Math: its table of factorials, and the last prime but one up to which it factorizes.
constexpr int MOST_FACTORIAL = 170;
constexpr int MOST_PRIME = 104'723;
// Primes times occupancies above which prime powers take too long (some seconds) and logarithms of factorials take their
// place, with 13 digits or so.
constexpr double MOST_PRIME_WORK = 30e6;
// Words from which the series of log k! is exact to extended precision: its next term is below 1e-24 there.
constexpr int STIRLING = 1024;
// A number of nonzeros further than sqrt(FARTHEST * draws) from its mean has the probability 0 in a double: at most
// exp(-2 * FARTHEST), by Hoeffding's inequality, which also holds for draws without replacement.
constexpr double FARTHEST = 400;

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

// Probabilities of x marked words in a tile of n words, of r marked ones in all: one for each x and r.
static Numbers hypergeometric_pdf(const Numbers& x, const Numbers& r, double n, double total) {
    const auto smaller_primes = [&] { return std::lower_bound(primes().begin(), primes().end(), Whole(total)) - primes().begin(); };
    const bool factored = total <= MOST_PRIME && double(smaller_primes()) * double(x.size()) <= MOST_PRIME_WORK;
    Numbers result;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const auto of = total <= MOST_FACTORIAL ? by_factorials(Whole(x[i]), Whole(r[i]), Whole(n), Whole(total))
            : factored ? by_primes(std::uint32_t(x[i]), std::uint32_t(r[i]), std::uint32_t(n), std::uint32_t(total))
                       : by_logarithms(Whole(x[i]), Whole(r[i]), Whole(n), Whole(total));
        result.push_back(double(std::clamp(of, Real(0), Real(1))));
    }
    return result;
}

namespace {

// Tiles of a banded matrix, counted as Timeloop counts them.
struct BandTiles {
    Whole band, side, rows, columns;         // rows and columns of a tile
    Whole down = side / rows, across = side / columns;  // tiles below each other, and side by side

    BandTiles(const DensityModel& model, const Box& tile)
        : band(model.band_width), side(Whole(model.tensor.rows)), rows(Whole(tile.rows)), columns(Whole(tile.columns())) {}

    std::string size() const { return std::to_string(rows) + " x " + std::to_string(columns); }
    std::string matrix() const { return std::to_string(side) + " x " + std::to_string(side); }
    void check_division() const {
        if (side % rows || side % columns)
            throw Aborted("Timeloop aborts: tiles of " + size() + " words do not divide the banded matrix of " + matrix());
    }
    Whole warm_up() const { return (band + rows - 1) / rows; }  // the first rows of tiles, whose band is cut off at the left
    // Tiles of a row of tiles that do not lie to the right of the band.
    Whole reached(Whole row) const { return std::min((row * rows + rows - 1 + band) / columns + 1, across); }
    // Row r of the matrix has its nonzeros in the columns r - band to r + band, so min(max(x + band - r, 0), 2 band + 1) of
    // them lie left of the column x; summed over the rows of a tile that is a difference of two sums from 0 on.
    Whole nonzeros(Whole row, Whole column) const {
        const Whole width = 2 * band + 1;
        const auto up_to = [&](Whole most) {
            const Whole rising = std::clamp<Whole>(most, 0, width);
            return rising * (rising + 1) / 2 + std::max<Whole>(most - width, 0) * width;
        };
        const auto left_of = [&](Whole x) { return up_to(x + band - row * rows) - up_to(x + band - (row + 1) * rows); };
        return left_of((column + 1) * columns) - left_of(column * columns);
    }

    // Occupancies; 0 is listed first, even where no tile is empty. The first rows of tiles stand for the last ones, too,
    // and the first full row for all rows between.
    Histogram histogram() const {
        if (!down || !across)
            throw Aborted("a tile of " + size() + " words exceeds the banded matrix of " + matrix() + "; Timeloop divides by 0 here");
        const Whole steady = std::max<Whole>(down - 2 * warm_up(), 0);
        std::map<Whole, Whole> counts = {{0, 0}};
        for (Whole row = 0; row < std::min(warm_up() + 1, down); ++row) {
            const Whole weight = row >= warm_up() ? steady : warm_up() != down ? 2 : 1;
            counts[0] += (across - reached(row)) * weight;
            for (Whole column = 0; column < reached(row); ++column) counts[nonzeros(row, column)] += weight;
        }
        Histogram found;
        for (auto [occupancy, times] : counts) {
            found.occupancies.push_back(double(occupancy));
            found.probabilities.push_back(double(times) / double(down * across));
        }
        return found;
    }

    // Row and column of the corner of the first tile with this occupancy, row by row.
    std::pair<Whole, Whole> first_with(Whole occupancy) const {
        for (Whole row = 0; row < std::min(warm_up() + 1, down); ++row)
            for (Whole column = 0; column < across; ++column)
                if ((column < reached(row) ? nonzeros(row, column) : 0) == occupancy) return {row * rows, column * columns};
        throw Aborted("Timeloop aborts: it finds no tile of " + size() + " words with " + std::to_string(occupancy)
                      + " nonzeros in the banded matrix");
    }
};

// The share of empty tiles within the first tile `outer` that has this occupancy.
double band_empty_share(const DensityModel& model, const Box& tile, const Box& outer, double occupancy) {
    const BandTiles around(model, outer), inner(model, tile);
    around.check_division();
    const auto [top, left] = around.first_with(Whole(occupancy));
    inner.check_division();
    const Whole down = around.rows / inner.rows, across = around.columns / inner.columns;
    // Timeloop adds the corner of the outer tile twice to the lower corner of an inner one, and never to the upper one
    // beyond the offset: an inner tile is [2 * corner + offset, tile + corner + offset).
    if (top >= inner.rows || left >= inner.columns) return 1;
    Whole empty = down * across;
    for (Whole row = 0; row < down; ++row) {
        // Of a row of tiles those have nonzeros whose columns meet the bands of the rows [low, high).
        const Whole low = 2 * top + inner.rows * row, high = low - top + inner.rows;
        const auto floored = [](Whole a, Whole b) { return a >= 0 ? a / b : -((b - 1 - a) / b); };
        const Whole first = std::max<Whole>(-floored(left + inner.columns + model.band_width - low - 1, inner.columns), 0);
        const Whole last = std::min(floored(high - 1 + model.band_width - 2 * left, inner.columns), across - 1);
        empty -= std::max<Whole>(last - first + 1, 0);
    }
    return double(empty) / double(down * across);
}

double fixed_empty(double exact) { return exact < 1 ? 1 - exact : 0; }

// Drops occupancies without a probability.
Histogram possible(const Numbers& occupancies, const Numbers& probabilities) {
    Histogram kept;
    for (std::size_t i = 0; i < occupancies.size(); ++i)
        if (probabilities[i] != 0) {
            kept.occupancies.push_back(occupancies[i]);
            kept.probabilities.push_back(probabilities[i]);
        }
    return kept;
}

}  // namespace

Histogram DensityModel::histogram(const Box& tile) const {
    if (kind == FIXED) {
        const double exact = tile.words * density, below = std::floor(exact), share = exact - below;
        return possible({below, std::ceil(exact)}, {1 - share, share});
    }
    if (kind == BANDED) {
        const Histogram found = BandTiles(*this, tile).histogram();
        return possible(found.occupancies, found.probabilities);
    }
    const double draws = std::min(tile.words, nonzeros);
    const auto likely = double(Whole((__int128)(tile.words) * Whole(nonzeros) / Whole(tensor.words)));
    const double reach = std::floor(std::sqrt(FARTHEST * draws)) + 2;
    Numbers occupancies;
    for (double x = std::max({0.0, tile.words + nonzeros - tensor.words, likely - reach}); x <= std::min(draws, likely + reach); ++x)
        occupancies.push_back(x);
    return possible(occupancies, hypergeometric_pdf(occupancies, Numbers(occupancies.size(), nonzeros), tile.words, tensor.words));
}

double DensityModel::least(const Box& tile) const {
    if (kind == FIXED) return std::floor(std::floor(tile.words * density) / tile.words * tile.words);
    if (kind == BANDED || tile.words <= tensor.words - nonzeros) return 0;
    // Timeloop subtracts the tensor's words from the tile's in whole numbers of 64 bits without sign, so that the least
    // occupancy of a tile that cannot be empty is 0, or beyond all others, unless it is the whole tensor.
    const double missing = double(std::uint64_t(tile.words) - std::uint64_t(tensor.words)) + nonzeros;
    const double least = std::floor(missing / tile.words * tile.words);
    return least < 0x1p64 ? least : 0;
}

double DensityModel::most(const Box& tile) const {
    if (kind == FIXED) return std::ceil(tile.words * density);
    return kind == BANDED ? BandTiles(*this, tile).histogram().occupancies.back() : std::min(tile.words, nonzeros);
}

double DensityModel::expected(const Box& tile) const {
    if (kind == FIXED) return tile.words * density;
    double sum = 0;
    if (kind == BANDED) {
        for (Whole diagonal = 1; diagonal <= band_width; ++diagonal) sum += 2 * (tensor.rows - double(diagonal));
        return tile.words * ((tensor.rows + sum) / (tensor.rows * tensor.rows));
    }
    const Histogram found = histogram(tile);
    for (std::size_t i = 0; i < found.occupancies.size(); ++i) sum += found.probabilities[i] * found.occupancies[i];
    return sum;
}

double DensityModel::empty(const Box& tile) const {
    if (kind == FIXED) return fixed_empty(tile.words * density);
    if (kind == BANDED) return BandTiles(*this, tile).histogram().probabilities[0];
    return tile.words + nonzeros > tensor.words ? 0 : hypergeometric_pdf({0}, {nonzeros}, tile.words, tensor.words)[0];
}

Numbers DensityModel::empty_within(const Box& tile, const Box& outer, const Numbers& occupancies) const {
    Numbers result(occupancies.size()), marked;
    for (std::size_t i = 0; i < result.size(); ++i) {
        if (kind == FIXED) result[i] = fixed_empty(tile.words * (occupancies[i] / outer.words));
        if (kind == BANDED) result[i] = band_empty_share(*this, tile, outer, occupancies[i]);
        if (kind == HYPERGEOMETRIC && tile.words + occupancies[i] <= outer.words) marked.push_back(occupancies[i]);
    }
    const Numbers undrawn = hypergeometric_pdf(Numbers(marked.size()), marked, tile.words, outer.words);
    for (std::size_t i = 0, next = 0; next < undrawn.size(); ++i)
        if (tile.words + occupancies[i] <= outer.words) result[i] = undrawn[next++];
    return result;
}

double DensityModel::most_elements(const Box& fiber, const Box& element) const {
    if (std::fmod(fiber.words, element.words) != 0)
        throw Aborted("Timeloop aborts on this mapping: " + std::to_string(Whole(fiber.words))
                      + " words of a fan-out are no multiple of the " + std::to_string(Whole(element.words))
                      + " words of one instance, where instances are skipped");
    const double elements = fiber.words / element.words;
    // Timeloop multiplies with the share of empty elements.
    if (kind == BANDED) return std::ceil(elements * band_empty_share(*this, element, fiber, most(fiber)));
    return std::min(most(fiber), elements);
}

}  // namespace fadiff::sparse
