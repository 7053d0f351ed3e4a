#include "lockstep/base/environment.h"

#include <charconv>
#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/base/text/lower_case.h"

namespace lockstep {

std::optional<std::string> env_string(const std::string& name) {
  const char* text = std::getenv(name.c_str());
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::string(text);
}

std::optional<std::int64_t> env_int(const std::string& name) {
  const auto text = env_string(name);
  if (!text) return std::nullopt;
  std::int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, status] = std::from_chars(text->data(), end, value);
  if (status != std::errc() || stop != end) {
    throw Error(name + " is \"" + *text + "\", which is not a whole number", "environment",
                "set " + name + " to a whole number, or unset it");
  }
  return value;
}

std::optional<bool> env_bool(const std::string& name) {
  const auto text = env_string(name);
  if (!text) return std::nullopt;
  const std::string lower = lower_case(*text);
  if (lower == "1" || lower == "true" || lower == "yes" || lower == "on") return true;
  if (lower == "0" || lower == "false" || lower == "no" || lower == "off") return false;
  throw Error(name + " is \"" + *text + "\", which is neither true nor false", "environment",
              "set " + name + " to 1 or 0, or unset it");
}

}  // namespace lockstep
