#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace lockstep {

constexpr const char* kManifestFile = "manifest.json";

/// `manifest.json`, the last file of a checkpoint to be written: what belongs to it, and how to tell that it is whole.
///
/// The checksum is SHA-256: `sha256sum` checks a file by hand, OpenSSL computes it at the speed of a disk or better,
/// and two checkpoints with equal sums have equal weights, which also serves to compare ranks.
struct Manifest {
  struct File {
    std::uint64_t bytes = 0;
    std::string sha256;  ///< 64 hexadecimal digits
  };

  std::int64_t step = 0;
  int world_size = 1;         ///< ranks that wrote it
  std::int64_t sequence = 0;  ///< counts the checkpoints of an output folder: the newest has the largest
  std::map<std::string, File> files;
};

/// The file's text. Its last field is the SHA-256 of the rest.
std::string manifest_json(const Manifest& manifest);
/// @param path  named in errors
/// @throws Error  if it is not a manifest of this library, or was changed: its own sum is wrong
Manifest parse_manifest(const std::string& text, const std::string& path);
/// That of the checkpoint in `folder`. @throws Error  as parse_manifest, or if there is none
Manifest read_manifest(const std::string& folder);

/// Fails where `folder` is not what `manifest` says. @param with_checksums  false: sizes only
/// @throws Error  that names the first file that is missing, has another length, or other bytes
void check_files(const std::string& folder, const Manifest& manifest, bool with_checksums);

}  // namespace lockstep
