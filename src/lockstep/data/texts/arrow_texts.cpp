// Arrow files, and folders of them, as rows of texts.
#include <filesystem>

#include "lockstep/data/tables/arrow/arrow_table.h"
#include "lockstep/data/tables/arrow/saved_dataset.h"
#include "lockstep/data/text_file.h"
#include "lockstep/data/texts/table_texts.h"

namespace lockstep {
namespace {

std::unique_ptr<Table> open_arrow(const std::string& path) {
  if (std::filesystem::is_directory(path)) return open_arrow_table(path, files_of_saved_dataset(path));
  return open_arrow_table(path, {path});
}

}  // namespace

std::shared_ptr<const TextDataset> read_arrow_texts(const std::string& path, const TextFileOptions& options) {
  return texts_of_table(open_arrow(path), options, "arrow");
}

TableSchema read_arrow_schema(const std::string& path) { return schema_of_table(*open_arrow(path)); }

}  // namespace lockstep
