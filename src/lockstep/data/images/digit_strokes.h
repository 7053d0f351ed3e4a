#pragma once

#include <vector>

namespace lockstep {

/// A point of the drawing plane: x to the right, y down. A digit as designed spans about 0 to 100 in both directions.
struct StrokePoint {
  int x;
  int y;
};

/// One line of the pen, as control points: the curve begins at the first, ends at the last, and bends towards the
/// others.
using Stroke = std::vector<StrokePoint>;

/// The ways to write each digit: digit_shapes()[d] lists them, each a list of strokes.
const std::vector<std::vector<std::vector<Stroke>>>& digit_shapes();

/// The curve of `stroke` as straight pieces: its corners are cut twice (Chaikin, 1974). Uses integers only, so the
/// result is equal on every machine.
Stroke smooth(Stroke stroke);

}  // namespace lockstep
