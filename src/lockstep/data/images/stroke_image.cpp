#include "lockstep/data/images/stroke_image.h"

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

constexpr int kStrokeUnit = StrokeImage::kUnitsPerPixel;
constexpr int kReach = 4 * kStrokeUnit;  // lines farther away than any pen's radius are skipped
constexpr std::int64_t kFar = std::int64_t{kReach} * kReach;

std::int64_t square(std::int64_t x) { return x * x; }

// Pixels whose centres may lie between `low` and `high`, as a half-open range.
std::pair<int, int> pixels_between(int low, int high) {
  const auto clamp = [](int pixel) { return std::clamp(pixel, 0, StrokeImage::kSide); };
  return {clamp((low - kReach) / kStrokeUnit), clamp((high + kReach) / kStrokeUnit + 1)};
}

// Squared distance of `p` from the line between `a` and `b`.
std::int64_t distance2(StrokePoint p, StrokePoint a, StrokePoint b) {
  const std::int64_t dx = b.x - a.x;
  const std::int64_t dy = b.y - a.y;
  const std::int64_t px = p.x - a.x;
  const std::int64_t py = p.y - a.y;
  const std::int64_t along = px * dx + py * dy;
  const std::int64_t length2 = dx * dx + dy * dy;
  if (along <= 0) return px * px + py * py;
  if (along >= length2) return square(p.x - b.x) + square(p.y - b.y);
  return square(px * dy - py * dx) / length2;
}

}  // namespace

StrokeImage::StrokeImage() { distance2_.fill(kFar); }

void StrokeImage::draw(const Stroke& stroke) {
  for (std::size_t i = 0; i + 1 < stroke.size(); ++i) draw_line(stroke[i], stroke[i + 1]);
}

void StrokeImage::draw_line(StrokePoint a, StrokePoint b) {
  const auto [left, right] = pixels_between(std::min(a.x, b.x), std::max(a.x, b.x));
  const auto [top, bottom] = pixels_between(std::min(a.y, b.y), std::max(a.y, b.y));
  for (int y = top; y < bottom; ++y) {
    for (int x = left; x < right; ++x) {
      const StrokePoint centre{x * kStrokeUnit + kStrokeUnit / 2, y * kStrokeUnit + kStrokeUnit / 2};
      std::int64_t& nearest = distance2_[y * kSide + x];
      nearest = std::min(nearest, distance2(centre, a, b));
    }
  }
}

void StrokeImage::render(int radius, std::uint8_t* pixels) const {
  const int edge = std::min(radius + kStrokeUnit / 2, kReach);
  for (std::size_t i = 0; i < distance2_.size(); ++i) {
    if (distance2_[i] >= square(edge)) {
      pixels[i] = 0;
      continue;
    }
    // IEEE requires the square root of a double to be rounded correctly, so it is equal on all machines.
    const int distance = static_cast<int>(std::sqrt(static_cast<double>(distance2_[i])));
    pixels[i] = static_cast<std::uint8_t>(std::min(edge - distance, kStrokeUnit - 1));
  }
}

}  // namespace lockstep
