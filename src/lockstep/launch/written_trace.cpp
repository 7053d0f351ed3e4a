#include "lockstep/launch/written_trace.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

namespace lockstep {
namespace {

std::filesystem::file_time_type written_at(const std::string& file) {
  std::error_code is_missing;
  const auto time = std::filesystem::last_write_time(file, is_missing);
  return is_missing ? std::filesystem::file_time_type::min() : time;
}

}  // namespace

WrittenTrace::WrittenTrace(std::string file) : file_(std::move(file)), before_(written_at(file_)) {}

std::string WrittenTrace::summary() const {
  if (file_.empty() || written_at(file_) == before_) return "";
  std::ifstream in(file_);
  const auto trace = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  const auto about = trace.is_object() ? trace.value("otherData", nlohmann::json::object()) : nlohmann::json::object();
  std::string text;
  for (const char* part : {"summary", "missing"}) {
    const auto lines = about.value(part, nlohmann::json::array());
    for (const auto& line : lines) {
      if (!line.is_string()) continue;
      text += part == std::string("missing") ? "lockstep run: trace incomplete: " : "lockstep run: ";
      text += line.get<std::string>() + "\n";
    }
  }
  return text + "lockstep run: trace written: " + file_ + "\n";
}

}  // namespace lockstep
