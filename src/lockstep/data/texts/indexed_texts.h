#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/files/file_bytes.h"
#include "lockstep/data/text_dataset.h"
#include "lockstep/data/text_file.h"
#include "lockstep/data/texts/text_row_checks.h"

namespace lockstep {

/// Rows of a mapped file, located once: the offset of each, and its label. A reader finds them in its constructor,
/// passes them to `set_rows`, and reads a row at its offset.
class IndexedTexts : public TextDataset {
 public:
  std::int64_t size() const override { return static_cast<std::int64_t>(offsets_.size()); }

 protected:
  /// @param format  name of the format, part of the digest
  IndexedTexts(const std::string& path, const TextFileOptions& options, std::string format);

  /// Ends the search for rows. @throws Error  as TextRowChecks::finish
  void set_rows(TextRowChecks& checks);

  std::string_view view() const { return file_.view(); }
  const std::string& path() const { return file_.path(); }

 private:
  /// The texts of the row that begins at `offset`.
  virtual std::vector<std::string> do_texts(std::uint64_t offset) const = 0;

  TextRow do_get(std::int64_t index) const override;
  std::string do_where(std::int64_t index) const override;
  std::string do_digest() const override;

  FileBytes file_;
  std::string settings_;  // digest of the options and the format
  std::vector<std::uint64_t> offsets_;
  std::vector<std::int32_t> labels_;
};

/// Digest of the options that affect the rows of a file.
std::string digest_of(const TextFileOptions& options, const std::string& format);

}  // namespace lockstep
