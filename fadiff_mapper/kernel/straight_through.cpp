// One discrete draw of all tiling factors with the derivative of its expectation (FADiff eqs. (1)-(3)).
//
// The estimator is that of Bengio et al. (2013): forward a discrete choice, backward the derivative of a smooth
// stand-in, here the expectation of eq. (3) under the softmax of eq. (2). Each draw depends on what the places further
// in left, so this is a loop.

#include <cmath>
#include <limits>
#include <optional>

#include "bindings.hpp"

namespace fadiff {

// Draws B columns. theta [P][D][B]: log2 of the continuous factors; noise [P][D][B][N]: Gumbel noise, or none; alpha and tau:
// sharpness of eq. (1) and temperature of eq. (2); member [B]. Tables of W members with N divisors, as
// gradient/gumbel_softmax.py (FactorPlaces) has them: divisor [W][D][N], completable [W][P][D][N][N], left [W][D][N][N],
// start [W][D]. Results, [P][D][B]: hard, the divisors drawn; slope, the derivative of each expectation by its own theta.
//
// With logits l_j, weights w_j = exp(l_j) and pulls l_j' (derivatives by theta) the expectation is sum(w d) / sum(w), and
// its derivative (sum(w d l') - sum(w d) / sum(w) * sum(w l')) / sum(w).
template <typename Noise>
static void draw(const Array<double>& theta, const std::optional<Array<Noise>>& noise, double alpha, double tau,
                 const Array<std::int64_t>& member, const Array<double>& divisor, const Array<bool>& completable,
                 const Array<std::int64_t>& left, const Array<std::int64_t>& start, Array<double>& hard, Array<double>& slope) {
    if (theta.ndim() != 3 || divisor.ndim() != 3) throw std::invalid_argument("draw_columns: wrong number of axes");
    const py::ssize_t places = theta.shape(0), dims = theta.shape(1), batch = theta.shape(2);
    const py::ssize_t members = divisor.shape(0), width = divisor.shape(2);
    if (divisor.shape(1) != dims || member.size() != batch || hard.size() != theta.size() || slope.size() != theta.size()
        || completable.size() != members * places * dims * width * width || left.size() != members * dims * width * width
        || start.size() != members * dims || (noise && noise->size() != theta.size() * width))
        throw std::invalid_argument("draw_columns: wrong shapes");
    for (py::ssize_t b = 0; b < batch; ++b) need(member.data()[b] >= 0 && member.data()[b] < members, "member");
    const double *thetas = theta.data(), *divisors = divisor.data();
    const Noise* noises = noise ? noise->data() : nullptr;
    const bool* table = completable.data();
    const std::int64_t *rests = left.data(), *starts = start.data(), *of = member.data();
    double *drawn = hard.mutable_data(), *slopes = slope.mutable_data();
    py::gil_scoped_release release;
    std::vector<double> logit(width), octave(width);
    for (py::ssize_t b = 0; b < batch; ++b)
        for (py::ssize_t d = 0; d < dims; ++d) {
            const py::ssize_t row = of[b] * dims + d;
            const double* own = divisors + row * width;
            for (py::ssize_t j = 0; j < width; ++j) octave[j] = std::log2(own[j]);
            std::int64_t rest = starts[row];
            for (py::ssize_t p = 0; p < places; ++p) {
                const py::ssize_t at = (p * dims + d) * batch + b;
                need(rest >= 0 && rest < width, "start, left");
                const bool* may = table + (((of[b] * places + p) * dims + d) * width + rest) * width;
                double top = -std::numeric_limits<double>::infinity();
                py::ssize_t pick = 0;
                for (py::ssize_t j = 0; j < width; ++j) {
                    if (!may[j]) continue;
                    const double gap = thetas[at] - octave[j];
                    logit[j] = -alpha * (gap * gap) / tau + (noises ? double(noises[at * width + j]) : 0);  // eq. (1)
                    if (logit[j] > top) top = logit[j], pick = j;
                }
                double total = 0, mean = 0, moved = 0, drift = 0;
                for (py::ssize_t j = 0; j < width; ++j) {
                    if (!may[j]) continue;
                    const double share = std::exp(logit[j] - top);  // eq. (2), less the largest so that none overflows
                    const double pull = -2 * alpha * (thetas[at] - octave[j]) / tau;
                    total += share;
                    mean += share * own[j];  // eq. (3)
                    moved += share * own[j] * pull;
                    drift += share * pull;
                }
                drawn[at] = own[pick];
                slopes[at] = (moved - mean / total * drift) / total;
                rest = rests[(row * width + rest) * width + pick];
            }
        }
}

void add_draw(py::module_& module) {
    // Noise of either precision, so that neither caller converts a table of every divisor. Results are written into arrays
    // that are given: no conversion may take their place by a copy.
    const auto add = [&](auto function, py::arg noise) {
        module.def("draw_columns", function, py::arg("theta"), noise, py::arg("alpha"), py::arg("tau"), py::arg("member"),
                   py::arg("divisor"), py::arg("completable"), py::arg("left"), py::arg("start"), py::arg("hard").noconvert(),
                   py::arg("slope").noconvert());
    };
    add(&draw<float>, py::arg("noise").noconvert());
    add(&draw<double>, py::arg("noise"));
}

}  // namespace fadiff
