/* One sweep of all directions through this rank's column of cells: the problem, the directions, the
 * decomposition, and the exchange of faces. Included by sweep3d.c only. The same in Rust:
 * ../src/problem.rs, quadrature.rs, decomposition.rs, sweep.rs. */
#include <inttypes.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { I, J, K, AXES, MAX_ANGLES = 10, OCTANTS = 8, MAX_ITERATIONS = 5000 };
enum source { UNIFORM, CENTER, CORNER };
enum { FACE_I = 1, FACE_J = 2 };

/* The problem, and the block sizes of the sweep for the pipeline. */
static struct {
  int cells[AXES], sn, mmi, mk, steps, iterations;
  double width, total, ratio, epsi;
  enum source source;
  int reflect[AXES];
} p = {{64, 64, 32}, 4, 3, 16, 1, 0, 0.1, 1.0, 0.5, 1e-3, CENTER, {0, 0, 0}};

static double scattering, volume;

/* The processes, and this one's column: all k over these cells along i and j. */
static int rank, size, npe[2], pe[2], first[2], n[AXES];

/* Directions of the first octant; others mirror them. */
static int angles;
static double cosine[MAX_ANGLES][AXES], weight[MAX_ANGLES];

/* A block of angles: 2 |cosine| / width, and 1 / (total + their sum). */
static int m;
static double twice[AXES][MAX_ANGLES], inverse[MAX_ANGLES], block_weight[MAX_ANGLES];

/* Cells are indexed (k * nj + j) * ni + i; faces the same way without their axis. */
static double *flux, *previous, *emission, *source, *face[AXES], *outflow[AXES][2];
/* The outflow kept by low reflecting faces, by octant and block of angles. */
static double *mirror[AXES];
static size_t face_cells[AXES];
static int angle_blocks;
static uint64_t fixups;

static void *zeros(size_t count, size_t bytes) {
  void *memory = calloc(count ? count : 1, bytes);
  if (!memory) {
    fprintf(stderr, "sweep3d: no memory for %zu numbers\n", count);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return memory;
}

/* ---- Directions: level-symmetric sets S2 to S8 (Lewis, Miller 1984, table 4-1) ---- */

static double published_weight(int a, int b, int c) {
  int least = a < b ? (a < c ? a : c) : (b < c ? b : c);
  int most = a > b ? (a > c ? a : c) : (b > c ? b : c);
  switch (p.sn) {
    case 2: return 1.0;
    case 4: return 0.3333333;
    case 6: return least == 1 && most == 3 && a + b + c == 5 ? 0.1761263 : 0.1572071;
    default:
      if (least == 1 && most == 4) return 0.1209877;
      return least == 1 && most == 3 && a + b + c == 6 ? 0.0907407 : 0.0925926;
  }
}

static void make_directions(void) {
  const double first_cosine = p.sn == 4 ? 0.3500212 : p.sn == 6 ? 0.2666355 : 0.2182179;
  double level[4], sum = 0.0, squared = first_cosine * first_cosine;
  int levels = p.sn / 2;
  if (p.sn == 2) {
    level[0] = sqrt(1.0 / 3.0);
  } else {
    double step = 2.0 * (1.0 - 3.0 * squared) / (p.sn - 2.0);
    for (int i = 0; i < levels; i++) level[i] = sqrt(squared + step * i);
  }
  angles = 0;
  for (int a = 1; a <= levels; a++)
    for (int b = 1; b <= levels + 1 - a; b++) {
      int c = levels + 2 - a - b;
      cosine[angles][I] = level[a - 1];
      cosine[angles][J] = level[b - 1];
      cosine[angles][K] = level[c - 1];
      weight[angles++] = published_weight(a, b, c);
    }
  for (int a = 0; a < angles; a++) sum += weight[a];
  for (int a = 0; a < angles; a++) weight[a] /= 8.0 * sum;
}

/* ---- Decomposition ---- */

static int part(int cells, int parts, int index) {
  return (int)((long long)index * cells / parts);
}

/* The longest side of a column, and the wasted part of it. */
static double cost(int parts, int cells) {
  double side = (cells + parts - 1) / parts;
  return side + parts * side - cells;
}

static void choose_process_grid(void) {
  double best = INFINITY;
  for (int i = 1; i <= size; i++) {
    double sum = cost(i, p.cells[I]) + cost(size / i, p.cells[J]);
    if (size % i || sum >= best) continue;
    best = sum;
    npe[I] = i;
    npe[J] = size / i;
  }
}

/* The column of a rank: its first cell and its number of cells along i and j. */
static void column_of(int who, int *place, int *start, int *cells) {
  place[I] = who % npe[I];
  place[J] = who / npe[I];
  for (int axis = I; axis <= J; axis++) {
    start[axis] = part(p.cells[axis], npe[axis], place[axis]);
    cells[axis] = part(p.cells[axis], npe[axis], place[axis] + 1) - start[axis];
  }
}

/* The rank at a side of this one's column; MPI_PROC_NULL at the boundary of the grid. */
static int neighbour(int axis, int high) {
  int place[2] = {pe[I], pe[J]};
  place[axis] += high ? 1 : -1;
  if (place[axis] < 0 || place[axis] >= npe[axis]) return MPI_PROC_NULL;
  return place[J] * npe[I] + place[I];
}

/* ---- One sweep ---- */

/* Whether an octant runs towards higher coordinates. k changes fastest, negative ones first. */
static int bit(int axis) { return axis == I ? 2 : axis == J ? 4 : 1; }
static int is_up(int octant, int axis) { return (octant & bit(axis)) != 0; }

static int boundary(int axis, int high) {
  return axis == K || neighbour(axis, high) == MPI_PROC_NULL;
}

static void begin_block(int from, int count) {
  m = count;
  for (int a = 0; a < m; a++) {
    for (int axis = 0; axis < AXES; axis++)
      twice[axis][a] = 2.0 * cosine[from + a][axis] / p.width;
    inverse[a] = 1.0 / (p.total + twice[I][a] + twice[J][a] + twice[K][a]);
    block_weight[a] = weight[from + a];
  }
}

/* Sets negative outflows to zero and solves the cell's balance again without them. Returns the flux
 * in its middle. Each round settles a face at least. */
static double fix_up(int a, double born, const double *inflow, double *out) {
  int zeroed[AXES] = {0, 0, 0};
  double center = 0.0;
  for (int turn = 0; turn < AXES; turn++) {
    double gain = born, loss = p.total;
    for (int axis = 0; axis < AXES; axis++) {
      zeroed[axis] |= out[axis] < 0.0;
      if (zeroed[axis]) {
        gain += 0.5 * twice[axis][a] * inflow[axis];
      } else {
        gain += twice[axis][a] * inflow[axis];
        loss += twice[axis][a];
      }
    }
    center = gain / loss;
    for (int axis = 0; axis < AXES; axis++)
      out[axis] = zeroed[axis] ? 0.0 : 2.0 * center - inflow[axis];
    if (out[I] >= 0.0 && out[J] >= 0.0 && out[K] >= 0.0) break;
  }
  return center;
}

/* Diamond differences in one cell for all angles of the block; the inflows become outflows. */
static double solve_cell(double born, double sum, double *psi_i, double *psi_j, double *psi_k) {
  for (int a = 0; a < m; a++) {
    double inflow[AXES] = {psi_i[a], psi_j[a], psi_k[a]}, out[AXES];
    double gain =
        born + twice[I][a] * inflow[I] + twice[J][a] * inflow[J] + twice[K][a] * inflow[K];
    double center = gain * inverse[a];
    for (int axis = 0; axis < AXES; axis++) out[axis] = 2.0 * center - inflow[axis];
    if (out[I] < 0.0 || out[J] < 0.0 || out[K] < 0.0) {
      center = fix_up(a, born, inflow, out);
      fixups++;
    }
    sum += block_weight[a] * center;
    psi_i[a] = out[I];
    psi_j[a] = out[J];
    psi_k[a] = out[K];
  }
  return sum;
}

/* Solves the cells of `planes` planes from `k0` on, in the direction of flight. */
static void solve_block(int octant, int k0, int planes) {
  for (int kk = 0; kk < planes; kk++) {
    int k_in = is_up(octant, K) ? kk : planes - 1 - kk;
    for (int jj = 0; jj < n[J]; jj++) {
      int j = is_up(octant, J) ? jj : n[J] - 1 - jj;
      size_t row = ((size_t)(k0 + k_in) * n[J] + j) * n[I];
      for (int ii = 0; ii < n[I]; ii++) {
        int i = is_up(octant, I) ? ii : n[I] - 1 - ii;
        flux[row + i] = solve_cell(emission[row + i], flux[row + i],
                                   &face[I][((size_t)k_in * n[J] + j) * m],
                                   &face[J][((size_t)k_in * n[I] + i) * m],
                                   &face[K][((size_t)j * n[I] + i) * m]);
      }
    }
  }
}

static double *kept_by(int octant, int block, int axis) {
  return &mirror[axis][((size_t)octant * angle_blocks + block) * face_cells[axis] * p.mmi];
}

/* The inflow of a face: the outflow of the mirrored octant kept by a low reflecting boundary. */
static void enter(int octant, int block, int axis, size_t start, size_t cells) {
  if (is_up(octant, axis) && mirror[axis])
    memcpy(face[axis], kept_by(octant ^ bit(axis), block, axis) + start * m,
           cells * m * sizeof(double));
}

/* Counts the outflow through the grid's boundary, or keeps it for reflection. */
static void leave(int octant, int block, int axis, size_t start, size_t cells) {
  if (!is_up(octant, axis) && mirror[axis]) {
    memcpy(kept_by(octant, block, axis) + start * m, face[axis], cells * m * sizeof(double));
    return;
  }
  double *open = outflow[axis][is_up(octant, axis)], half_volume = volume / 2.0;
  if (!open) return;
  /* |cosine| x area = (2 |cosine| / width) x volume / 2. */
  for (size_t cell = 0; cell < cells; cell++)
    for (int a = 0; a < m; a++)
      open[start + cell] +=
          block_weight[a] * (twice[axis][a] * half_volume) * face[axis][cell * m + a];
}

/* Faces come in from upstream, or from the boundary. */
static void receive(int octant, int axis, int tag, size_t numbers) {
  int from = neighbour(axis, !is_up(octant, axis));
  memset(face[axis], 0, numbers * sizeof(double));
  if (numbers)
    MPI_Recv(face[axis], (int)numbers, MPI_DOUBLE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void send(int octant, int axis, int tag, size_t numbers) {
  int to = neighbour(axis, is_up(octant, axis));
  if (numbers) MPI_Send(face[axis], (int)numbers, MPI_DOUBLE, to, tag, MPI_COMM_WORLD);
}

static void sweep(void) {
  int k_blocks = (n[K] + p.mk - 1) / p.mk;
  memset(flux, 0, (size_t)n[I] * n[J] * n[K] * sizeof *flux);
  for (int axis = 0; axis < AXES; axis++)
    for (int high = 0; high < 2; high++)
      if (outflow[axis][high])
        memset(outflow[axis][high], 0, face_cells[axis] * sizeof(double));
  for (int octant = 0; octant < OCTANTS; octant++)
    for (int b = 0; b < angle_blocks; b++) {
      size_t plane = (size_t)n[I] * n[J];
      begin_block(b * p.mmi, angles - b * p.mmi < p.mmi ? angles - b * p.mmi : p.mmi);
      memset(face[K], 0, plane * m * sizeof(double));
      enter(octant, b, K, 0, plane);
      for (int step = 0; step < k_blocks; step++) {
        int k0 = (is_up(octant, K) ? step : k_blocks - 1 - step) * p.mk;
        int planes = n[K] - k0 < p.mk ? n[K] - k0 : p.mk;
        size_t cells_i = (size_t)planes * n[J], cells_j = (size_t)planes * n[I];
        receive(octant, I, FACE_I, cells_i * m);
        receive(octant, J, FACE_J, cells_j * m);
        enter(octant, b, I, (size_t)k0 * n[J], cells_i);
        enter(octant, b, J, (size_t)k0 * n[I], cells_j);
        solve_block(octant, k0, planes);
        send(octant, I, FACE_I, cells_i * m);
        send(octant, J, FACE_J, cells_j * m);
        leave(octant, b, I, (size_t)k0 * n[J], cells_i);
        leave(octant, b, J, (size_t)k0 * n[I], cells_j);
      }
      leave(octant, b, K, 0, plane);
    }
}
