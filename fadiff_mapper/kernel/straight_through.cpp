#include "straight_through.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

namespace fadiff {

// With logits l_j, weights w_j = exp(l_j) and pulls l_j' (derivatives by theta) the expectation is sum(w d) / sum(w), and
// its derivative (sum(w d l') - sum(w d) / sum(w) * sum(w l')) / sum(w).
template <typename Noise>
void draw_columns(const DrawTables& tables, std::size_t batch, const double* theta, const Noise* noise,
                  const std::int64_t* member, double alpha, double tau, double* hard, double* slope) {
    const std::size_t width = tables.width, dims = tables.dims;
    std::vector<double> logit(width), octave(width);
    for (std::size_t b = 0; b < batch; ++b)
        for (std::size_t d = 0; d < dims; ++d) {
            const std::size_t row = std::size_t(member[b]) * dims + d;
            const double* divisor = tables.divisor + row * width;
            for (std::size_t j = 0; j < width; ++j) octave[j] = std::log2(divisor[j]);
            std::int64_t rest = tables.start[row];
            for (std::size_t p = 0; p < tables.places; ++p) {
                const std::size_t at = (p * dims + d) * batch + b;
                if (std::uint64_t(rest) >= width) throw std::invalid_argument("start, left: out of range");
                const bool* may = tables.completable
                    + (((std::size_t(member[b]) * tables.places + p) * dims + d) * width + std::size_t(rest)) * width;
                double top = -std::numeric_limits<double>::infinity();
                std::size_t pick = 0;
                for (std::size_t j = 0; j < width; ++j) {
                    if (!may[j]) continue;
                    const double gap = theta[at] - octave[j];
                    logit[j] = -alpha * (gap * gap) / tau + (noise ? double(noise[at * width + j]) : 0);  // eq. (1)
                    if (logit[j] > top) top = logit[j], pick = j;
                }
                double total = 0, mean = 0, moved = 0, drift = 0;
                for (std::size_t j = 0; j < width; ++j) {
                    if (!may[j]) continue;
                    const double share = std::exp(logit[j] - top);  // eq. (2), less the largest so that none overflows
                    const double pull = -2 * alpha * (theta[at] - octave[j]) / tau;
                    total += share;
                    mean += share * divisor[j];  // eq. (3)
                    moved += share * divisor[j] * pull;
                    drift += share * pull;
                }
                hard[at] = divisor[pick];
                slope[at] = (moved - mean / total * drift) / total;
                rest = tables.left[(row * width + std::size_t(rest)) * width + pick];
            }
        }
}

template void draw_columns(const DrawTables&, std::size_t, const double*, const float*, const std::int64_t*, double, double,
                           double*, double*);
template void draw_columns(const DrawTables&, std::size_t, const double*, const double*, const std::int64_t*, double, double,
                           double*, double*);

}  // namespace fadiff
