#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace lockstep {

constexpr const char* kManifestFile = "manifest.json";

/// `manifest.json`, the last file that is written into a checkpoint. It lists the checkpoint's files and proves that
/// they are whole.
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
  std::int64_t sequence = 0;  ///< number of the checkpoint in its output folder: the newest has the largest
  std::map<std::string, File> files;
};

/// Whether a checkpoint may have a file of that name: a plain one, or one in a folder with a plain name
/// ("1_Pooling/config.json"). Others could point anywhere.
bool is_manifest_name(const std::string& name);

/// The file's text. Its last field is the SHA-256 of all others.
std::string manifest_json(const Manifest& manifest);
/// @param path  named in errors
/// @throws Error  if it is not a manifest of this library, or was changed: its own checksum is wrong
Manifest parse_manifest(const std::string& text, const std::string& path);
/// True if Hugging Face's Trainer wrote the checkpoint in `folder`: it has training_args.bin.
bool is_hugging_face_checkpoint(const std::string& folder);
/// Reads the manifest of the checkpoint in `folder`. @throws Error  as parse_manifest, or if the file does not exist;
/// it says so if the checkpoint is Hugging Face's
Manifest read_manifest(const std::string& folder);

/// Checks that `folder` has the content that `manifest` lists. @param with_checksums  false: sizes only
/// @throws Error  that names the first file that is missing or has another length or other bytes
void check_files(const std::string& folder, const Manifest& manifest, bool with_checksums);

}  // namespace lockstep
