#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep {

/// What a file with parts of tensors says of one of them. The file's tensor of that name is one-dimensional and has the
/// elements [begin, end) of a tensor of shape `sizes`.
struct PartPlace {
  std::vector<std::int64_t> sizes;
  std::int64_t begin = 0;
  std::int64_t end = 0;

  /// Whether a tensor of these sizes can exist, and has these elements.
  bool is_possible() const;
};
using PartPlaces = std::map<std::string, PartPlace>;

/// The key in "__metadata__" of a safetensors file whose text `parse_part_places` reads.
constexpr const char* kPartsKey = "parts";

/// A JSON object: `{"layer.weight": {"sizes": [8, 6], "begin": 0, "end": 24}}`.
std::string part_places_json(const PartPlaces& places);
/// @param path  named in errors
/// @throws Error  if `text` is not such JSON, or a place contradicts itself
PartPlaces parse_part_places(const std::string& text, const std::string& path);

}  // namespace lockstep
