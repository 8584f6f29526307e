/* A two-dimensional complex Fourier transform and its inverse: rows, a transposition, rows again.
 *
 *   storm-mpicc -O2 -o fft fft.c -lm
 *   storm submit -n 16 ./fft [points along a side] [times]
 *
 * Every rank has some rows; the transposition sends a block from every rank to every rank. The
 * factors come from square roots, which are rounded in one way everywhere; sines are not. The same
 * program in Rust: ../src/fft.rs. If a compiler joins multiplications and additions (not on x86-64
 * unless told to), the bits are the same only with -ffp-contract=off. */
#include <inttypes.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  double re, im;
} complex_t;

static int n, rows;
/* exp(-2 pi i k / n) for k below n / 2. */
static complex_t *factors;

static complex_t times(complex_t a, complex_t b) {
  return (complex_t){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* Spreads a number over all bits (SplitMix64). */
static uint64_t mix(uint64_t word) {
  word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  word = (word ^ (word >> 27)) * UINT64_C(0x94d049bb133111eb);
  return word ^ (word >> 31);
}

/* The number of this place in a sequence that looks random, at least 0 and below 1. */
static double unit(uint64_t place) {
  return (double)(mix(place + UINT64_C(0x9e3779b97f4a7c15)) >> 11) / (double)(UINT64_C(1) << 53);
}

static complex_t value(uint64_t place) { return (complex_t){unit(2 * place), unit(2 * place + 1)}; }

static uint64_t term(uint64_t place, double number) {
  uint64_t word;
  memcpy(&word, &number, sizeof word);
  return mix(word ^ mix(place));
}

/* Factor k + 2^b is factor k turned by 2^b smallest angles: products of at most log2(n) of them. */
static void make_factors(void) {
  complex_t roots[32], root = {0.0, -1.0};
  int order = 0, count = 1;
  for (int turn = 4; turn <= n; turn *= 2) {
    roots[order++] = root;
    double re = sqrt((1.0 + root.re) / 2.0);
    root = (complex_t){re, root.im / (2.0 * re)};
  }
  factors[0] = (complex_t){1.0, 0.0};
  while (order-- > 0) {
    for (int k = 0; k < count; k++) factors[count + k] = times(factors[k], roots[order]);
    count *= 2;
  }
}

/* Transforms one row in place (decimation in time, radix 2). */
static void transform(complex_t *row) {
  for (int i = 1, reversed = 0; i < n; i++) {
    int bit = n / 2;
    for (; reversed & bit; bit /= 2) reversed ^= bit;
    reversed |= bit;
    if (i < reversed) {
      complex_t point = row[i];
      row[i] = row[reversed];
      row[reversed] = point;
    }
  }
  for (int half = 1; half < n; half *= 2)
    for (int group = 0; group < n; group += 2 * half)
      for (int k = group; k < group + half; k++) {
        complex_t a = row[k], b = times(row[k + half], factors[(k - group) * (n / 2 / half)]);
        row[k] = (complex_t){a.re + b.re, a.im + b.im};
        row[k + half] = (complex_t){a.re - b.re, a.im - b.im};
      }
}

/* Transposes: row i of all ranks' rows becomes column i. */
static void transpose(complex_t *data, complex_t *out, complex_t *in) {
  /* The block for a rank, column by column: the rank reads it row by row. */
  for (int column = 0; column < n; column++)
    for (int row = 0; row < rows; row++) out[column * rows + row] = data[row * n + column];
  int block = 2 * rows * rows;
  MPI_Alltoall(out, block, MPI_DOUBLE, in, block, MPI_DOUBLE, MPI_COMM_WORLD);
  /* Block s has, of each of my rows, the columns that were rows of rank s. */
  for (int column = 0; column < n; column++)
    for (int row = 0; row < rows; row++)
      data[row * n + column] = in[(column / rows * rows + row) * rows + column % rows];
}

/* The forward transform: from rows of points to rows of the transposed spectrum. */
static void there(complex_t *data, complex_t *out, complex_t *in) {
  for (int row = 0; row < rows; row++) transform(&data[row * n]);
  transpose(data, out, in);
  for (int row = 0; row < rows; row++) transform(&data[row * n]);
}

/* The inverse: with conjugates before and after, the transform is its inverse times n squared. */
static void back(complex_t *data, complex_t *out, complex_t *in) {
  double scale = 1.0 / ((double)n * n);
  for (int i = 0; i < rows * n; i++) data[i].im = -data[i].im;
  there(data, out, in);
  for (int i = 0; i < rows * n; i++)
    data[i] = (complex_t){data[i].re * scale, -data[i].im * scale};
}

int main(int argc, char **argv) {
  int rank, size, repeats;
  uint64_t sum = 0, whole_sum;
  double error = 0.0, largest;
  n = argc > 1 ? atoi(argv[1]) : 256;
  repeats = argc > 2 ? atoi(argv[2]) : 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (n < 1 || (n & (n - 1)) != 0 || n % size != 0 || repeats < 0) {
    if (rank == 0)
      fprintf(stderr, "usage: fft [points] [times], points a power of 2 and multiple of the ranks\n");
    MPI_Finalize();
    return 2;
  }
  rows = n / size;
  size_t points = (size_t)rows * n;
  uint64_t first = (uint64_t)rank * points;
  complex_t *data = malloc(points * sizeof *data), *out = malloc(points * sizeof *out);
  complex_t *in = malloc(points * sizeof *in);
  factors = malloc((size_t)(n / 2 + 1) * sizeof *factors);
  if (!data || !out || !in || !factors) MPI_Abort(MPI_COMM_WORLD, 1);
  make_factors();
  for (size_t i = 0; i < points; i++) data[i] = value(first + i);

  for (int i = 0; i < repeats; i++) {
    there(data, out, in);
    for (size_t k = 0; k < points; k++)
      sum += term(2 * (first + k), data[k].re) + term(2 * (first + k) + 1, data[k].im);
    back(data, out, in);
  }
  for (size_t i = 0; i < points; i++) {
    complex_t start = value(first + i);
    error = fmax(error, fmax(fabs(data[i].re - start.re), fabs(data[i].im - start.im)));
  }
  MPI_Allreduce(&sum, &whole_sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(&error, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  uint64_t bits;
  memcpy(&bits, &largest, sizeof bits);
  int right = largest <= 1e-12 * repeats;
  if (rank == 0)
    printf("fft: %d ranks, %d x %d points, %d times, check sum %016" PRIx64 ", error %016" PRIx64
           ", %s\n",
           size, n, n, repeats, whole_sum, bits, right ? "OK" : "WRONG");
  free(data);
  free(out);
  free(in);
  free(factors);
  MPI_Finalize();
  return right ? 0 : 1;
}
