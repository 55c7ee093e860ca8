// Eight numbers side by side: the kernel evaluates eight mappings, or eight tile sizes of a group, at once.
//
// Arithmetic reads as on plain numbers. Compilers turn it into the widest vector instructions of the target, with the
// same results on each: no operation is fused or reordered.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

// Bytes of the target's vectors; eight lanes take one or several vectors. Files that are compiled for different targets are
// linked into one module, so the names below contain the target, lest the linker mixes their code.
#if defined(__AVX512F__)
#define FADIFF_LANES lanes_in_64_bytes
#define FADIFF_VECTOR_BYTES 64
#elif defined(__AVX__)
#define FADIFF_LANES lanes_in_32_bytes
#define FADIFF_VECTOR_BYTES 32
#else
#define FADIFF_LANES lanes_in_16_bytes
#define FADIFF_VECTOR_BYTES 16
#endif

namespace fadiff {

constexpr int LANES = 8;

inline namespace FADIFF_LANES {

constexpr int VECTOR_BYTES = FADIFF_VECTOR_BYTES;
constexpr int PARTS = LANES * 8 / VECTOR_BYTES, WIDTH = LANES / PARTS;

typedef double Doubles __attribute__((vector_size(VECTOR_BYTES)));
typedef std::int64_t Bits __attribute__((vector_size(VECTOR_BYTES)));

// The sign of every number, one bit each.
inline unsigned sign_bits(Bits numbers) {
#if defined(__AVX512DQ__)
    return _mm512_movepi64_mask(__m512i(numbers));
#elif defined(__AVX__) && !defined(__AVX512F__)
    return unsigned(_mm256_movemask_pd(__m256d(numbers)));
#elif defined(__SSE2__) && !defined(__AVX512F__)
    return unsigned(_mm_movemask_pd(__m128d(numbers)));
#else
    unsigned bits = 0;
    for (int i = 0; i < WIDTH; ++i) bits |= unsigned(numbers[i] < 0) << i;
    return bits;
#endif
}

// The vectors of eight numbers, copied vector by vector: compilers copy a structure in smaller pieces, and a read of a whole
// vector stalls after writes in pieces.
template <typename Vector>
struct alignas(64) Parts {
    Vector parts[PARTS];

    Parts() = default;
    Parts(const Parts& other) { *this = other; }
    Parts& operator=(const Parts& other) {
        for (int i = 0; i < PARTS; ++i) parts[i] = other.parts[i];
        return *this;
    }
};

// True or false in every lane: all bits set, or none.
struct Mask : Parts<Bits> {
    // One bit for each lane.
    unsigned bits() const {
        unsigned together = 0;
        for (int i = 0; i < PARTS; ++i) together |= sign_bits(parts[i]) << (i * WIDTH);
        return together;
    }
    bool any() const { return bits() != 0; }
    bool all() const { return bits() == (1u << LANES) - 1; }
    bool operator[](int lane) const { return parts[lane / WIDTH][lane % WIDTH] != 0; }
};

struct Lanes : Parts<Doubles> {
    Lanes() : Lanes(0.0) {}
    Lanes(double value) {
        for (Doubles& part : parts) part = Doubles{} + value;
    }
    double operator[](int lane) const { return parts[lane / WIDTH][lane % WIDTH]; }
    void set(int lane, double value) { parts[lane / WIDTH][lane % WIDTH] = value; }
};

// Lanes, and masks, from the values `own(lane)`.
template <typename Own>
inline Lanes lanes_of(Own own) {
    alignas(64) double values[LANES];
    for (int lane = 0; lane < LANES; ++lane) values[lane] = own(lane);
    Lanes result;
    std::memcpy(result.parts, values, sizeof values);
    return result;
}
template <typename Own>
inline Mask mask_where(Own own) {
    alignas(64) std::int64_t values[LANES];
    for (int lane = 0; lane < LANES; ++lane) values[lane] = -std::int64_t(own(lane));
    Mask result;
    std::memcpy(result.parts, values, sizeof values);
    return result;
}
// Lanes from eight consecutive numbers.
inline Lanes load(const double* values) {
    Lanes result;
    std::memcpy(result.parts, values, sizeof result.parts);
    return result;
}
inline void store(Lanes lanes, double* values) { std::memcpy(values, lanes.parts, sizeof lanes.parts); }
inline Mask mask_of(bool value) {
    Mask result;
    for (Bits& part : result.parts) part = Bits{} - std::int64_t(value);
    return result;
}
template <typename Result, typename Each>
inline Result each_part(Each each) {
    Result result;
    for (int i = 0; i < PARTS; ++i) result.parts[i] = each(i);
    return result;
}

// A mask from one bit for each lane.
inline Mask mask_from(unsigned bits) {
    return each_part<Mask>([&](int i) {
        Bits own;
        for (int lane = 0; lane < WIDTH; ++lane) own[lane] = std::int64_t(1) << (i * WIDTH + lane);
        return Bits((own & (Bits{} + std::int64_t(bits))) != 0);
    });
}

inline Lanes operator+(Lanes a, Lanes b) { return each_part<Lanes>([&](int i) { return a.parts[i] + b.parts[i]; }); }
inline Lanes operator-(Lanes a, Lanes b) { return each_part<Lanes>([&](int i) { return a.parts[i] - b.parts[i]; }); }
inline Lanes operator*(Lanes a, Lanes b) { return each_part<Lanes>([&](int i) { return a.parts[i] * b.parts[i]; }); }
inline Lanes operator/(Lanes a, Lanes b) { return each_part<Lanes>([&](int i) { return a.parts[i] / b.parts[i]; }); }
inline Lanes operator-(Lanes a) { return each_part<Lanes>([&](int i) { return -a.parts[i]; }); }
inline Lanes& operator+=(Lanes& a, Lanes b) { return a = a + b; }
inline Lanes& operator*=(Lanes& a, Lanes b) { return a = a * b; }

inline Mask operator>(Lanes a, Lanes b) { return each_part<Mask>([&](int i) { return Bits(a.parts[i] > b.parts[i]); }); }
inline Mask operator<(Lanes a, Lanes b) { return each_part<Mask>([&](int i) { return Bits(a.parts[i] < b.parts[i]); }); }
inline Mask operator>=(Lanes a, Lanes b) { return each_part<Mask>([&](int i) { return Bits(a.parts[i] >= b.parts[i]); }); }
inline Mask operator==(Lanes a, Lanes b) { return each_part<Mask>([&](int i) { return Bits(a.parts[i] == b.parts[i]); }); }
inline Mask operator!=(Lanes a, Lanes b) { return each_part<Mask>([&](int i) { return Bits(a.parts[i] != b.parts[i]); }); }
inline Mask operator&(Mask a, Mask b) { return each_part<Mask>([&](int i) { return a.parts[i] & b.parts[i]; }); }
inline Mask operator|(Mask a, Mask b) { return each_part<Mask>([&](int i) { return a.parts[i] | b.parts[i]; }); }
inline Mask operator!(Mask a) { return each_part<Mask>([&](int i) { return ~a.parts[i]; }); }

inline Lanes select(Mask mask, Lanes yes, Lanes no) {
    return each_part<Lanes>([&](int i) { return mask.parts[i] ? yes.parts[i] : no.parts[i]; });
}
// `value` where the mask is true, else 0.
inline Lanes where(Mask mask, Lanes value) {
    return each_part<Lanes>([&](int i) { return Doubles(Bits(value.parts[i]) & mask.parts[i]); });
}
inline Lanes larger(Lanes a, Lanes b) { return each_part<Lanes>([&](int i) { return a.parts[i] < b.parts[i] ? b.parts[i] : a.parts[i]; }); }
inline Lanes smaller(Lanes a, Lanes b) { return each_part<Lanes>([&](int i) { return b.parts[i] < a.parts[i] ? b.parts[i] : a.parts[i]; }); }
inline Lanes absolute(Lanes a) { return larger(a, -a); }

// The same functions of one number, for templates that take one number or eight.
inline bool any(bool truth) { return truth; }
inline bool any(Mask mask) { return mask.any(); }
inline double select(bool truth, double yes, double no) { return truth ? yes : no; }
inline double where(bool truth, double value) { return truth ? value : 0.0; }
inline double larger(double a, double b) { return a < b ? b : a; }
inline double absolute(double a) { return std::abs(a); }

// On targets without an instruction: adding and subtracting 2^52, with the sign of the value, rounds to a whole number; from
// 2^52 on all doubles are whole.
inline Lanes floor(Lanes value) {
#if defined(__AVX512F__)
    return each_part<Lanes>([&](int i) {
        return Doubles(_mm512_roundscale_pd(__m512d(value.parts[i]), _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
    });
#elif defined(__AVX__)
    return each_part<Lanes>([&](int i) { return Doubles(_mm256_floor_pd(__m256d(value.parts[i]))); });
#else
    const Lanes whole = 0x1p52;
    const Lanes rounded = select(value < 0.0, value - whole + whole, value + whole - whole);
    return select(absolute(value) < whole, rounded - where(rounded > value, 1.0), value);
#endif
}
inline Lanes ceil(Lanes value) { return -floor(-value); }
inline Lanes sqrt(Lanes value) {
    return each_part<Lanes>([&](int i) {
#if defined(__AVX512F__)
        return Doubles(_mm512_sqrt_pd(__m512d(value.parts[i])));
#elif defined(__AVX__)
        return Doubles(_mm256_sqrt_pd(__m256d(value.parts[i])));
#elif defined(__SSE2__)
        return Doubles(_mm_sqrt_pd(__m128d(value.parts[i])));
#else
        Doubles root = value.parts[i];
        for (int lane = 0; lane < WIDTH; ++lane) root[lane] = std::sqrt(root[lane]);
        return root;
#endif
    });
}
// Half away from zero, as C++ rounds, for values that are not negative; written as in model/evaluate.py.
inline Lanes nearest(Lanes value) {
    const Lanes down = floor(value);
    return down + where(value - down >= 0.5, 1.0);
}

}  // namespace FADIFF_LANES
}  // namespace fadiff
