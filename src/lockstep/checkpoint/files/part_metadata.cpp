#include "lockstep/checkpoint/files/part_metadata.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/files/json_file.h"

namespace lockstep {
namespace {

using PartJson = nlohmann::json;

[[noreturn]] void refuse_parts(const std::string& path, const std::string& problem) {
  throw Error(fmt::format("{} does not hold parts of weights: {}", path, problem), path,
              "resume from another checkpoint, or copy this one again from where it is whole");
}

// The library would round a number with a fraction or an exponent.
std::int64_t whole_number(const PartJson& value, const std::string& path) {
  if (value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() <= INT64_MAX)) {
    return value.get<std::int64_t>();
  }
  refuse_parts(path, "a whole number is missing in its metadata");
}

void check_place(const std::string& name, const PartPlace& place, const std::string& path) {
  std::int64_t numel = 1;
  bool fits = true;
  for (const std::int64_t size : place.sizes) {
    fits = fits && size >= 0 && !__builtin_mul_overflow(numel, size, &numel);
  }
  if (fits && place.begin >= 0 && place.begin <= place.end && place.end <= numel) return;
  refuse_parts(path, fmt::format("the place of {:?} contradicts itself", name));
}

}  // namespace

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
      for (const PartJson& size : entry.at("sizes")) place.sizes.push_back(whole_number(size, path));
      place.begin = whole_number(entry.at("begin"), path);
      place.end = whole_number(entry.at("end"), path);
      check_place(name, place, path);
    }
  } catch (const PartJson::exception& error) {
    refuse_parts(path, error.what());
  }
  return places;
}

}  // namespace lockstep
