#include "lockstep/data/text/files/json_fields.h"

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::text {
namespace {

constexpr std::size_t kLongestShown = 80;

Error wrong_type(const nlohmann::json& value, const std::string& where, const std::string& expected) {
  return Error("expected " + expected + ", but it says " + show_json(value), where, "correct the file");
}

}  // namespace

std::string show_json(const nlohmann::json& value) {
  std::string shown = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (shown.size() > kLongestShown) shown.replace(kLongestShown, std::string::npos, "...");
  return shown;
}

JsonFields::JsonFields(const nlohmann::json& value, const std::string& where) : value_(value), where_(where) {
  if (!value.is_object()) throw wrong_type(value, where, "an object");
}

const nlohmann::json* JsonFields::find(const std::string& name) {
  read_.push_back(name);
  const auto found = value_.find(name);
  return found == value_.end() ? nullptr : &*found;
}

const nlohmann::json& JsonFields::require(const std::string& name) {
  if (const nlohmann::json* found = find(name)) return *found;
  throw Error("the field \"" + name + "\" is missing", where_, "download the file again");
}

std::optional<bool> JsonFields::flag(const std::string& name) {
  const nlohmann::json* found = find(name);
  if (found == nullptr || found->is_null()) return std::nullopt;
  if (!found->is_boolean()) throw wrong_type(*found, place(name), "true or false");
  return found->get<bool>();
}

bool JsonFields::flag(const std::string& name, bool otherwise) { return flag(name).value_or(otherwise); }

std::optional<std::string> JsonFields::text(const std::string& name) {
  const nlohmann::json* found = find(name);
  if (found == nullptr || found->is_null()) return std::nullopt;
  if (!found->is_string()) throw wrong_type(*found, place(name), "text");
  return found->get<std::string>();
}

std::string JsonFields::text(const std::string& name, const std::string& otherwise) {
  return text(name).value_or(otherwise);
}

std::int64_t JsonFields::number(const std::string& name, std::int64_t otherwise) {
  const nlohmann::json* found = find(name);
  if (found == nullptr || found->is_null()) return otherwise;
  constexpr std::int64_t kLargest = (std::int64_t{1} << 31) - 1;
  const bool huge = found->is_number_unsigned() && found->get<std::uint64_t>() > kLargest;
  if (!found->is_number_integer() || huge || found->get<std::int64_t>() < 0) {
    throw wrong_type(*found, place(name), "a whole number from 0 to 2^31 - 1");
  }
  return found->get<std::int64_t>();
}

void JsonFields::only(const std::string& name, const nlohmann::json& supported) {
  const nlohmann::json* found = find(name);
  if (found == nullptr || found->is_null() || *found == supported) return;
  throw Error("not supported: " + show_json(*found) + "; only " + show_json(supported) + " is", place(name),
              "use a tokenizer without it");
}

void JsonFields::skip(const std::vector<std::string>& names) { read_.insert(read_.end(), names.begin(), names.end()); }

void JsonFields::finish() const {
  for (const auto& item : value_.items()) {
    if (std::find(read_.begin(), read_.end(), item.key()) != read_.end()) continue;
    throw Error("not supported: the field \"" + item.key() + "\", which says " + show_json(item.value()), where_,
                "use a tokenizer without it");
  }
}

}  // namespace lockstep::text
