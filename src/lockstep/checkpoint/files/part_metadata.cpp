#include "lockstep/checkpoint/files/part_metadata.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/files/json_file.h"
#include "lockstep/checkpoint/files/json_number.h"

namespace lockstep {
namespace {

using PartJson = nlohmann::json;

[[noreturn]] void refuse_parts(const std::string& path, const std::string& problem) {
  throw Error(fmt::format("{} does not hold parts of weights: {}", path, problem), path,
              "resume from another checkpoint, or copy this one again from a whole copy");
}

std::int64_t number_of_part(const PartJson& value, const std::string& path) {
  if (const auto number = integer_in(value)) return *number;
  refuse_parts(path, "a whole number is missing in its metadata");
}

}  // namespace

bool PartPlace::is_possible() const {
  std::int64_t numel = 1;
  for (const std::int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(numel, size, &numel)) return false;
  }
  return begin >= 0 && begin <= end && end <= numel;
}

std::string part_places_json(const PartPlaces& places) {
  PartJson json = PartJson::object();
  for (const auto& [name, place] : places) {
    json[name] = {{"sizes", place.sizes}, {"begin", place.begin}, {"end", place.end}};
  }
  return json.dump(-1, ' ', false, PartJson::error_handler_t::replace);  // the file's writer refuses such a name
}

PartPlaces parse_part_places(const std::string& text, const std::string& path) {
  const auto json = parse_json_object(text, path);
  PartPlaces places;
  try {
    for (const auto& [name, entry] : json->items()) {
      PartPlace& place = places[name];
      for (const PartJson& size : entry.at("sizes")) place.sizes.push_back(number_of_part(size, path));
      place.begin = number_of_part(entry.at("begin"), path);
      place.end = number_of_part(entry.at("end"), path);
      if (!place.is_possible()) refuse_parts(path, fmt::format("the place of {:?} contradicts itself", name));
    }
  } catch (const PartJson::exception& error) {
    refuse_parts(path, error.what());
  }
  return places;
}

}  // namespace lockstep
