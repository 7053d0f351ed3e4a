#include "lockstep/parallel/agreement/setting_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <set>

namespace lockstep {
namespace {

using Json = nlohmann::json;

// The first entry of two lists that differs.
std::size_t first_other(const Json& a, const Json& b) {
  std::size_t at = 0;
  while (at < std::min(a.size(), b.size()) && a[at] == b[at]) ++at;
  return at;
}

Json entry(const Json& list, std::size_t at) { return at < list.size() ? list[at] : Json(); }

}  // namespace

std::string SettingDifference::text(const std::string& me, const std::string& them) const {
  if (mine.is_object() && theirs.is_object()) {
    SettingDifference inner = setting_differences(mine, theirs).front();
    inner.name = name + "." + inner.name;
    return inner.text(me, them);
  }
  if (!mine.is_array() || !theirs.is_array()) {
    return fmt::format("{} is {} for {}, and {} for {}", name, shown_setting(mine), me, shown_setting(theirs), them);
  }
  const std::size_t at = first_other(mine, theirs);
  return fmt::format("{} has {} entries for {}, and {} for {}; number {}, counted from 0, is {}, and {}", name,
                     mine.size(), me, theirs.size(), them, at, shown_setting(entry(mine, at)),
                     shown_setting(entry(theirs, at)));
}

std::vector<SettingDifference> setting_differences(const Json& mine, const Json& theirs) {
  std::set<std::string> names;
  for (const Json* const each : {&mine, &theirs}) {
    if (!each->is_object()) continue;
    for (const auto& [name, value] : each->items()) names.insert(name);
  }
  const auto value_in = [](const Json& settings, const std::string& name) {
    return settings.is_object() ? settings.value(name, Json()) : Json();
  };
  std::vector<SettingDifference> found;
  for (const std::string& name : names) {
    SettingDifference difference{name, value_in(mine, name), value_in(theirs, name)};
    if (difference.mine != difference.theirs) found.push_back(std::move(difference));
  }
  return found;
}

std::string shown_setting(const Json& value) {
  if (value.is_null()) return "not given";
  constexpr std::size_t kMost = 200;
  std::string text = value.is_number_float() ? fmt::format("{}", value.get<double>())
                                             : value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

}  // namespace lockstep
