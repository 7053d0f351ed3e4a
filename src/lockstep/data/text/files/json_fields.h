#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::text {

/// The fields of a JSON object, read by name. A field that was never read is refused at the end instead of being
/// ignored. Every error names the place, such as "FILE: normalizer.strip_accents".
class JsonFields {
 public:
  /// @param where  the object's name in errors
  /// @throws Error  if `value` is not an object
  JsonFields(const nlohmann::json& value, const std::string& where);

  /// The field, or null if it is missing. It counts as read.
  const nlohmann::json* find(const std::string& name);
  /// @throws Error  if the field is missing
  const nlohmann::json& require(const std::string& name);

  /// The field in the requested type; the default if it is missing or null.
  /// @throws Error  if it has another type
  bool flag(const std::string& name, bool otherwise);
  std::optional<bool> flag(const std::string& name);
  std::string text(const std::string& name, const std::string& otherwise);
  std::optional<std::string> text(const std::string& name);
  std::int64_t number(const std::string& name, std::int64_t otherwise);

  /// @throws Error  if the field has a value other than `supported`; it may be missing or null
  void only(const std::string& name, const nlohmann::json& supported);
  /// Marks fields as read that do not matter here.
  void skip(const std::vector<std::string>& names);
  /// @throws Error  that names a field which was never read
  void finish() const;

  std::string place(const std::string& name) const { return where_ + "." + name; }
  const std::string& where() const { return where_; }

 private:
  const nlohmann::json& value_;
  std::string where_;
  std::vector<std::string> read_;
};

/// `value` as short text for an error.
std::string show_json(const nlohmann::json& value);

}  // namespace lockstep::text
