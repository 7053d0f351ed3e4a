#include "lockstep/data/texts/indexed_texts.h"

#include <fmt/format.h>

#include "lockstep/base/files/sha256.h"
#include "lockstep/data/files/line_ends.h"

namespace lockstep {

std::string digest_of(const TextFileOptions& options, const std::string& format) {
  Sha256 digest;
  digest.update_sized(format);
  const auto add_names = [&](const std::vector<std::string>& names) {
    digest.update_number(static_cast<std::int64_t>(names.size()));
    for (const std::string& name : names) digest.update_sized(name);
  };
  add_names(options.texts);
  add_names(options.column_names);
  digest.update_sized(options.label);
  add_names(options.label_columns);
  digest.update_number(options.label_lists ? 1 : 0);
  digest.update_number(options.keep_line_ends ? 1 : 0);
  digest.update_number(static_cast<std::int64_t>(options.labels.size()));
  for (const auto& [text, label] : options.labels) {
    digest.update_sized(text);
    digest.update_number(label);
  }
  for (const RowPolicy policy :
       {options.unlisted_labels, options.missing_labels, options.empty_texts, options.invalid_texts}) {
    digest.update_number(static_cast<int>(policy));
  }
  digest.update_number(options.dialect.delimiter);
  digest.update_number(options.dialect.quote);
  return digest.hex();
}

IndexedTexts::IndexedTexts(const std::string& path, const TextFileOptions& options, std::string format)
    : TextDataset({}), file_(FileBytes::open_text(path)), settings_(digest_of(options, format)) {}

void IndexedTexts::set_rows(TextRowChecks& checks) {
  file_.require_whole();
  checks.finish();
  set_info(checks.info());
  offsets_ = checks.take_offsets();
  labels_ = checks.take_labels();
  file_.expect_random_access();
}

TextRow IndexedTexts::do_get(std::int64_t index) const {
  TextRow row;
  row.texts = do_texts(offsets_[index]);
  file_.require_whole();
  if (!labels_.empty()) row.label = labels_[index];
  return row;
}

std::string IndexedTexts::do_where(std::int64_t index) const {
  return fmt::format("{}:{}", path(), 1 + count_line_ends(view().substr(0, offsets_[index])));
}

std::string IndexedTexts::do_digest() const {
  Sha256 digest;
  digest.update_sized(settings_);
  digest.update_sized(view());
  file_.require_whole();
  return digest.hex();
}

}  // namespace lockstep
