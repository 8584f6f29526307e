/* Discrete-ordinates particle transport: source iteration, each iteration a sweep of all directions
 * through a grid of cells, as a wavefront over a grid of processes (Koch, Baker, Alcouffe 1992).
 *
 *   storm-mpicc -O2 -o sweep3d sweep3d.c -lm
 *   storm submit -n 16 ./sweep3d [--grid IxJxK] [--sn N] [--source uniform|center|corner]
 *       [--width CM] [--total SIGMA] [--scattering RATIO] [--reflect AXES] [--epsi ERROR]
 *       [--iterations N] [--steps N] [--mmi ANGLES] [--mk PLANES]
 *
 * The program in Rust, ../src/, explains each part. Both print the same line, bit for bit (Rust
 * with --brief); on another number of ranks only that number differs. If a compiler joins
 * multiplications and additions (not on x86-64 unless told to), it needs -ffp-contract=off. */
#include "sweep.h"

static const double BALANCE_TOLERANCE = 1e-10;

/* ---- Source iteration ---- */

/* The source of a cell of the whole grid, per cm^3. */
static double source_at(int i, int j, int k) {
  const int cell[AXES] = {i, j, k};
  for (int axis = 0; axis < AXES; axis++) {
    int center = 2 * cell[axis] + 1;
    if (p.source == CENTER && 2 * abs(center - p.cells[axis]) > p.cells[axis]) return 0.0;
    if (p.source == CORNER && center > p.cells[axis]) return 0.0;
  }
  return 1.0;
}

/* The largest relative change of a cell of any rank. */
static double largest_change(size_t cells) {
  double change = 0.0, largest;
  for (size_t c = 0; c < cells; c++) {
    double by = flux[c] == 0.0 ? 0.0 : fabs((flux[c] - previous[c]) / flux[c]);
    if (by > change) change = by;
  }
  MPI_Allreduce(&change, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return largest;
}

/* Solves the problem. Returns the number of iterations. */
static int solve(double *error) {
  size_t cells = (size_t)n[I] * n[J] * n[K];
  int iteration = 0, limit = p.iterations ? p.iterations : MAX_ITERATIONS;
  uint64_t mine;
  memset(flux, 0, cells * sizeof *flux);
  memset(previous, 0, cells * sizeof *previous);
  fixups = 0;
  *error = INFINITY;
  while (iteration < limit && (p.iterations || *error > p.epsi)) {
    double *last = flux;
    flux = previous;
    previous = last;
    for (size_t c = 0; c < cells; c++) emission[c] = source[c] + scattering * previous[c];
    sweep();
    *error = largest_change(cells);
    iteration++;
  }
  mine = fixups;
  MPI_Allreduce(&mine, &fixups, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  return iteration;
}

static void prepare(void) {
  size_t cells, at = 0, most = p.mk < p.cells[K] ? p.mk : p.cells[K];
  make_directions();
  choose_process_grid();
  column_of(rank, pe, first, n);
  n[K] = p.cells[K];
  if (p.mmi > angles) p.mmi = angles;
  if (p.mk > n[K]) p.mk = n[K];
  angle_blocks = (angles + p.mmi - 1) / p.mmi;
  scattering = p.total * p.ratio;
  volume = p.width * p.width * p.width;
  cells = (size_t)n[I] * n[J] * n[K];
  flux = zeros(cells, sizeof *flux);
  previous = zeros(cells, sizeof *previous);
  emission = zeros(cells, sizeof *emission);
  source = zeros(cells, sizeof *source);
  for (int k = 0; k < n[K]; k++)
    for (int j = 0; j < n[J]; j++)
      for (int i = 0; i < n[I]; i++) source[at++] = source_at(first[I] + i, first[J] + j, k);
  face[I] = zeros(most * n[J] * p.mmi, sizeof(double));
  face[J] = zeros(most * n[I] * p.mmi, sizeof(double));
  face[K] = zeros((size_t)n[I] * n[J] * p.mmi, sizeof(double));
  face_cells[I] = (size_t)n[J] * n[K];
  face_cells[J] = (size_t)n[I] * n[K];
  face_cells[K] = (size_t)n[I] * n[J];
  for (int axis = 0; axis < AXES; axis++) {
    size_t blocks = (size_t)OCTANTS * angle_blocks;
    int low = boundary(axis, 0);
    if (low && p.reflect[axis])
      mirror[axis] = zeros(blocks * face_cells[axis] * p.mmi, sizeof(double));
    else if (low)
      outflow[axis][0] = zeros(face_cells[axis], sizeof(double));
    if (boundary(axis, 1)) outflow[axis][1] = zeros(face_cells[axis], sizeof(double));
  }
}

/* ---- The answer: rank 0 adds up in the order of the whole grid ---- */

/* A sum whose rounding error does not grow (Neumaier 1974). */
struct sum {
  double sum, lost;
};

static void add(struct sum *s, double term) {
  double total = s->sum + term;
  s->lost += fabs(s->sum) >= fabs(term) ? (s->sum - total) + term : (term - total) + s->sum;
  s->sum = total;
}

static double value(struct sum s) { return s.sum + s.lost; }

static uint64_t bits(double number) {
  uint64_t word;
  memcpy(&word, &number, sizeof word);
  return word;
}

/* Spreads a number over all bits (SplitMix64). */
static uint64_t mix(uint64_t word) {
  word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  word = (word ^ (word >> 27)) * UINT64_C(0x94d049bb133111eb);
  return word ^ (word >> 31);
}

/* Puts the columns' blocks in their places of the whole, at rank 0; other ranks get null. A block
 * has `layers` layers. Rows run along `along`; a layer has a row for each place along `across`, or
 * one row if it is -1. `has` tells whether a rank has a block. */
static double *gather(const double *block, int layers, int along, int across,
                      int (*has)(const int *place, int axis, int high), int axis, int high) {
  int *counts = NULL, *starts = NULL, place[2], start[2], cells[2], total = 0, mine = 0;
  double *parts = NULL, *whole = NULL;
  column_of(rank, place, start, cells);
  if (has(place, axis, high)) mine = layers * cells[along] * (across < 0 ? 1 : cells[across]);
  if (rank == 0) {
    counts = zeros(size, sizeof *counts);
    starts = zeros(size, sizeof *starts);
    for (int who = 0; who < size; who++) {
      column_of(who, place, start, cells);
      starts[who] = total;
      if (has(place, axis, high))
        counts[who] = layers * cells[along] * (across < 0 ? 1 : cells[across]);
      total += counts[who];
    }
    parts = zeros(total, sizeof *parts);
    whole = zeros(total, sizeof *whole);
  }
  MPI_Gatherv(block, mine, MPI_DOUBLE, parts, counts, starts, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  for (int who = 0; rank == 0 && who < size; who++) {
    const double *from = &parts[starts[who]];
    if (!counts[who]) continue;
    column_of(who, place, start, cells);
    int rows = across < 0 ? 1 : cells[across], whole_rows = across < 0 ? 1 : p.cells[across];
    for (int layer = 0; layer < layers; layer++)
      for (int row = 0; row < rows; row++, from += cells[along]) {
        size_t to = (size_t)layer * whole_rows + row + (across < 0 ? 0 : start[across]);
        memcpy(&whole[to * p.cells[along] + start[along]], from, cells[along] * sizeof *from);
      }
  }
  free(counts);
  free(starts);
  free(parts);
  return whole;
}

static int everyone(const int *place, int axis, int high) {
  (void)place, (void)axis, (void)high;
  return 1;
}

static int at_boundary(const int *place, int axis, int high) {
  return axis == K || place[axis] == (high ? npe[axis] - 1 : 0);
}

static double leakage(void) {
  struct sum sum = {0.0, 0.0};
  for (int axis = 0; axis < AXES; axis++)
    for (int high = 0; high < 2; high++) {
      if (!high && p.reflect[axis]) continue;
      double *whole = axis == K ? gather(outflow[K][high], 1, I, J, at_boundary, K, high)
                                : gather(outflow[axis][high], n[K], axis == I ? J : I, -1,
                                         at_boundary, axis, high);
      size_t cells = 1;
      for (int other = 0; other < AXES; other++)
        if (other != axis) cells *= p.cells[other];
      for (size_t c = 0; rank == 0 && c < cells; c++) add(&sum, whole[c]);
      free(whole);
    }
  return value(sum);
}

/* Prints the answer. Returns whether particles are balanced. */
static int report(int iterations, double error) {
  struct sum born = {0, 0}, absorbed = {0, 0}, lag = {0, 0}, total = {0, 0};
  double *now = gather(flux, n[K], I, J, everyone, 0, 0);
  double *before = gather(previous, n[K], I, J, everyone, 0, 0), out = leakage();
  double absorption = p.total - scattering;
  uint64_t sum = 0, c = 0;
  if (rank != 0) return 1;
  for (int k = 0; k < p.cells[K]; k++)
    for (int j = 0; j < p.cells[J]; j++)
      for (int i = 0; i < p.cells[I]; i++, c++) {
        add(&born, source_at(i, j, k) * volume);
        add(&absorbed, absorption * now[c] * volume);
        add(&lag, scattering * (now[c] - before[c]) * volume);
        add(&total, now[c]);
        sum += mix(bits(now[c]) ^ mix(c));
      }
  double balance = fabs((value(born) - value(absorbed) - out - value(lag)) / value(born));
  int right = balance <= BALANCE_TOLERANCE;
  printf("sweep3d: %d ranks, %d x %d x %d cells, S%d, %d steps, %d iterations, %" PRIu64
         " fix-ups, check sum %016" PRIx64 ", error %016" PRIx64 ", flux sum %016" PRIx64
         ", absorption %016" PRIx64 ", leakage %016" PRIx64 ", %s\n",
         size, p.cells[I], p.cells[J], p.cells[K], p.sn, p.steps, iterations, fixups, sum,
         bits(error), bits(value(total)), bits(value(absorbed)), bits(out),
         right ? "OK" : "WRONG");
  free(now);
  free(before);
  return right;
}

/* ---- Arguments ---- */

static int whole(const char *text, int least, int *number) {
  char *end;
  long parsed = strtol(text, &end, 10);
  *number = (int)parsed;
  return end != text && !*end && parsed >= least && parsed <= 1 << 20;
}

static int real(const char *text, double least, double below, double *number) {
  char *end;
  *number = strtod(text, &end);
  return end != text && !*end && *number >= least && *number < below;
}

static int axes(const char *text) {
  for (int axis = 0; axis < AXES; axis++) p.reflect[axis] = strchr(text, "ijk"[axis]) != NULL;
  return strspn(text, "ijk,") == strlen(text);
}

static int region(const char *text) {
  static const char *names[] = {"uniform", "center", "corner"};
  for (int i = 0; i < 3; i++)
    if (!strcmp(text, names[i])) {
      p.source = (enum source)i;
      return 1;
    }
  return 0;
}

static int grid(const char *text) {
  char rest;
  int read = sscanf(text, "%dx%dx%d%c", &p.cells[I], &p.cells[J], &p.cells[K], &rest);
  if (read != 3) return 0;
  for (int axis = 0; axis < AXES; axis++)
    if (p.cells[axis] < 1 || p.cells[axis] > 1 << 20) return 0;
  /* MPI counts the gathered elements in ints. */
  return (double)p.cells[I] * p.cells[J] * p.cells[K] < 2147483648.0;
}

/* Takes an option. Returns whether it exists and its value makes sense. */
static int option(const char *name, const char *text) {
  if (!strcmp(name, "--grid")) return grid(text);
  if (!strcmp(name, "--sn")) return whole(text, 2, &p.sn) && p.sn <= 8 && p.sn % 2 == 0;
  if (!strcmp(name, "--width")) return real(text, 1e-300, INFINITY, &p.width);
  if (!strcmp(name, "--total")) return real(text, 1e-300, INFINITY, &p.total);
  if (!strcmp(name, "--scattering")) return real(text, 0.0, 1.0, &p.ratio);
  if (!strcmp(name, "--source")) return region(text);
  if (!strcmp(name, "--reflect")) return axes(text);
  if (!strcmp(name, "--epsi")) return real(text, 0.0, INFINITY, &p.epsi);
  if (!strcmp(name, "--iterations")) return whole(text, 1, &p.iterations);
  if (!strcmp(name, "--steps")) return whole(text, 1, &p.steps);
  if (!strcmp(name, "--mmi")) return whole(text, 1, &p.mmi);
  if (!strcmp(name, "--mk")) return whole(text, 1, &p.mk);
  return 0;
}

int main(int argc, char **argv) {
  int iterations = 0, right = 0;
  double error = 0.0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int arg = 1; arg < argc; arg += 2)
    if (arg + 1 == argc || !option(argv[arg], argv[arg + 1])) {
      if (rank == 0) fprintf(stderr, "sweep3d: %s: no such option, or not its value\n", argv[arg]);
      MPI_Finalize();
      return 2;
    }
  prepare();
  for (int step = 0; step < p.steps; step++) iterations = solve(&error);
  right = report(iterations, error);
  MPI_Finalize();
  return right ? 0 : 1;
}
