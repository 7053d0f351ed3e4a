#include "lockstep/data/tables/arrow/saved_dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/data/files/file_bytes.h"
#include "lockstep/data/text/files/json_file.h"
#include "lockstep/data/text_file.h"

namespace lockstep {
namespace {

constexpr const char* kState = "state.json";
constexpr const char* kSplits = "dataset_dict.json";

nlohmann::json json_in(const std::string& path) {
  const FileBytes file = FileBytes::open_text(path);
  return text::parse_json(file.view(), path);
}

[[noreturn]] void refuse_splits(const std::string& folder) {
  std::vector<std::string> names;
  const nlohmann::json splits = json_in((std::filesystem::path(folder) / kSplits).string());
  if (splits.is_object() && splits.contains("splits") && splits["splits"].is_array()) {
    for (const nlohmann::json& name : splits["splits"]) {
      if (name.is_string()) names.push_back(name);
    }
  }
  throw Error(fmt::format("the folder holds several splits of a dataset: {}", fmt::join(names, ", ")), folder,
              fmt::format("name one of them: {}",
                          (std::filesystem::path(folder) / (names.empty() ? "train" : names.front())).string()));
}

}  // namespace

bool is_saved_dataset(const std::string& folder) {
  const std::filesystem::path path(folder);
  return std::filesystem::is_regular_file(path / kState) || std::filesystem::is_regular_file(path / kSplits);
}

std::vector<std::string> files_of_saved_dataset(const std::string& folder) {
  const std::filesystem::path path(folder);
  if (std::filesystem::is_regular_file(path / kSplits)) refuse_splits(folder);
  const std::string where = (path / kState).string();
  const nlohmann::json state = json_in(where);
  const char* fix = "write the folder again, in Python: dataset.save_to_disk(FOLDER)";
  if (!state.is_object() || !state.contains("_data_files") || !state["_data_files"].is_array()) {
    throw Error("it does not list the files of a dataset, under \"_data_files\"", where, fix);
  }
  if (!state.value("_indices_data_files", nlohmann::json()).empty()) {
    throw Error("the dataset's rows are chosen by a list of indices, which is not read", where, fix);
  }
  std::vector<std::string> files;
  for (const nlohmann::json& entry : state["_data_files"]) {
    const auto name = entry.is_object() ? entry.value("filename", nlohmann::json()) : nlohmann::json();
    // A file of this folder and no other one.
    if (!name.is_string() || std::filesystem::path(name.get<std::string>()).filename() != name.get<std::string>()) {
      throw Error("an entry of \"_data_files\" is not the name of a file in the folder", where, fix);
    }
    files.push_back((path / name.get<std::string>()).string());
  }
  if (files.empty()) throw Error("the dataset has no files", where, fix);
  return files;
}

}  // namespace lockstep
