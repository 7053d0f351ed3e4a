#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "lockstep/data/images/digit_strokes.h"

namespace lockstep {

/// A small grey image drawn with a round pen. It uses integer arithmetic and one IEEE square root of an integer, so
/// every machine draws equal bytes.
class StrokeImage {
 public:
  static constexpr int kSide = 28;
  /// Points are in units of 1/256 pixel, with (0, 0) at the upper left corner.
  static constexpr int kUnitsPerPixel = 256;

  StrokeImage();

  /// Draws straight lines from point to point.
  void draw(const Stroke& stroke);
  /// The drawing with a pen of `radius` units, as bytes row by row: 255 on the line, falling to 0 within one pixel at
  /// its edge.
  void render(int radius, std::uint8_t* pixels) const;

 private:
  void draw_line(StrokePoint a, StrokePoint b);

  std::array<std::int64_t, std::size_t{kSide} * kSide>
      distance2_;  // of each pixel's centre to the nearest line, squared
};

}  // namespace lockstep
