#include "lockstep/checkpoint/files/manifest.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/files/json_file.h"
#include "lockstep/base/files/sha256.h"
#include "lockstep/checkpoint/files/json_number.h"

namespace lockstep {
namespace {

constexpr const char* kManifestFormat = "lockstep checkpoint";
constexpr int kManifestVersion = 1;
constexpr std::uint64_t kMaxManifestBytes = 64 << 20;
constexpr const char* kManifestFix = "resume from another checkpoint, or copy this one again from a whole copy";

std::string sum_of(nlohmann::json json) {
  json.erase("sha256");
  return sha256_hex(json.dump());
}

[[noreturn]] void refuse_manifest(const std::string& path, const std::string& problem) {
  throw Error(fmt::format("{} {}", path, problem), path, kManifestFix);
}

bool is_single_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

}  // namespace

bool is_manifest_name(const std::string& name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string::npos) return is_single_name(name);
  return is_single_name(name.substr(0, slash)) && is_single_name(name.substr(slash + 1));
}

std::string manifest_json(const Manifest& manifest) {
  nlohmann::json files = nlohmann::json::object();
  for (const auto& [name, file] : manifest.files) files[name] = {{"bytes", file.bytes}, {"sha256", file.sha256}};
  nlohmann::json json{{"format", kManifestFormat},     {"version", kManifestVersion},
                      {"step", manifest.step},         {"world_size", manifest.world_size},
                      {"sequence", manifest.sequence}, {"files", std::move(files)}};
  json["sha256"] = sum_of(json);
  return json.dump(2) + "\n";
}

Manifest parse_manifest(const std::string& text, const std::string& path) {
  const auto object = parse_json_object(text, path);
  const nlohmann::json& json = *object;
  if (json.value("format", nlohmann::json()) != kManifestFormat) {
    refuse_manifest(path, "is not a manifest of a checkpoint");
  }
  if (json.value("sha256", nlohmann::json()) != sum_of(json))
    refuse_manifest(path, "was changed: its own checksum is wrong");
  try {
    if (whole_number_at<int>(json, "version", path) != kManifestVersion) {
      refuse_manifest(path, fmt::format("is of version {}; this library reads version {}", json.at("version").dump(),
                                        kManifestVersion));
    }
    Manifest manifest;
    manifest.step = whole_number_at<std::int64_t>(json, "step", path);
    manifest.world_size = whole_number_at<int>(json, "world_size", path);
    manifest.sequence = whole_number_at<std::int64_t>(json, "sequence", path);
    if (manifest.step < 0)
      refuse_manifest(path, fmt::format("says \"step\": {}, which no training can have", manifest.step));
    if (manifest.world_size < 1) {
      refuse_manifest(path, fmt::format("says \"world_size\": {}, which no job can have", manifest.world_size));
    }
    for (const auto& [name, file] : json.at("files").items()) {
      if (!is_manifest_name(name))
        refuse_manifest(path, fmt::format("names \"{}\", which is not a plain file name", name));
      manifest.files[name] = {whole_number_at<std::uint64_t>(file, "bytes", path),
                              file.at("sha256").get<std::string>()};
    }
    return manifest;
  } catch (const nlohmann::json::exception& error) {
    refuse_manifest(path, fmt::format("lacks a field: {}", error.what()));
  }
}

bool is_hugging_face_checkpoint(const std::string& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder + "/training_args.bin", ignored) &&
         std::filesystem::exists(folder + "/trainer_state.json", ignored);
}

Manifest read_manifest(const std::string& folder) {
  const std::string path = folder + "/" + kManifestFile;
  std::error_code problem;
  const auto size = std::filesystem::file_size(path, problem);
  if (problem && is_hugging_face_checkpoint(folder)) {
    throw Error("it was written by Hugging Face's Trainer, whose optimizer state is not read; --model " + folder +
                    " begins with its weights",
                folder, "train with --model " + folder + ", without --resume-from-checkpoint");
  }
  if (problem) {
    throw Error("it has no manifest.json: another library wrote it, or it was only partly copied", folder,
                kManifestFix);
  }
  if (size > kMaxManifestBytes)
    refuse_manifest(path, fmt::format("has {} bytes, which is not possible for a manifest", size));
  return parse_manifest(read_file(path), path);
}

void check_files(const std::string& folder, const Manifest& manifest, bool with_checksums) {
  const auto path_of = [&](const std::string& name) { return folder + "/" + name; };
  for (const auto& [name, file] : manifest.files) {  // lengths first, because they are cheap
    struct stat status {};
    if (::stat(path_of(name).c_str(), &status) != 0) {
      throw Error(fmt::format("{} is missing: {}", name, errno_text(errno)), folder, kManifestFix);
    }
    if (!S_ISREG(status.st_mode)) throw Error(name + " is not a regular file", folder, kManifestFix);
    if (static_cast<std::uint64_t>(status.st_size) == file.bytes) continue;
    throw Error(fmt::format("{} has {} bytes, but the manifest says {}", name, status.st_size, file.bytes), folder,
                kManifestFix);
  }
  if (!with_checksums) return;
  for (const auto& [name, file] : manifest.files) {
    const std::string found = sha256_of_file(path_of(name), kManifestFix);
    if (found == file.sha256) continue;
    throw Error(fmt::format("{} was changed: its SHA-256 is {}, but the manifest says {}", name, found, file.sha256),
                folder, kManifestFix);
  }
}

}  // namespace lockstep
