// Parquet as rows of texts.
#include "lockstep/data/tables/parquet/parquet_table.h"
#include "lockstep/data/text_file.h"
#include "lockstep/data/texts/table_texts.h"

namespace lockstep {

std::shared_ptr<const TextDataset> read_parquet_texts(const std::string& path, const TextFileOptions& options) {
  return texts_of_table(open_parquet_table(path), options, "parquet");
}

TableSchema read_parquet_schema(const std::string& path) { return schema_of_table(*open_parquet_table(path)); }

}  // namespace lockstep
