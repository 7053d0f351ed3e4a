#include "lockstep/data/tables/parquet/parquet_schema.h"

#include <fmt/format.h>

#include "lockstep/data/tables/parquet/parquet_leaf_type.h"
#include "lockstep/data/tables/table_fault.h"

namespace lockstep {
namespace {

constexpr int kRequired = 0, kRepeated = 2;

/// Goes through the tree, whose nodes stand in the order in which they are met.
class ParquetTree {
 public:
  explicit ParquetTree(const std::vector<ParquetNode>& nodes) : nodes_(nodes) {}

  ParquetField next_field() {
    ParquetField field;
    field.leaf = leaves_;
    field.node = next_;
    const ParquetNode& node = peek();
    field.may_hold_nulls = node.repetition != kRequired;
    if (is_leaf(node) && node.repetition != kRepeated) {
      field.field = parquet_leaf_type(take());
      ++leaves_;
    } else {
      field.field = {node.name, next_type(0), ValueKind::Other};
    }
    return field;
  }

  const ParquetNode& take() {
    const ParquetNode& node = peek();
    ++next_;
    return node;
  }
  std::size_t leaves() const { return leaves_; }
  bool ended() const { return next_ == nodes_.size(); }

 private:
  static bool is_leaf(const ParquetNode& node) { return node.physical_type >= 0; }
  static bool is_list(const ParquetNode& node) { return node.logical_type == 3 || node.converted_type == 3; }
  static bool is_map(const ParquetNode& node) {
    return node.logical_type == 2 || node.converted_type == 1 || node.converted_type == 2;
  }

  const ParquetNode& peek() const {
    if (next_ >= nodes_.size()) throw TableFault("its tree of columns has fewer than it announces");
    return nodes_[next_];
  }

  // The type of the next node, with what is below it.
  std::string next_type(int depth) {
    const ParquetNode& node = take();
    const std::string type = type_below(node, depth);
    return node.repetition == kRepeated ? "list<" + type + ">" : type;
  }

  std::string type_below(const ParquetNode& node, int depth) {
    constexpr int kMostDepth = 64;
    if (depth > kMostDepth) throw TableFault("its columns are nested too deeply");
    if (is_leaf(node)) {
      ++leaves_;
      return parquet_leaf_type(node).type;
    }
    if (is_map(node) && node.children == 1 && peek().children == 2) {
      take();
      const std::string key = next_type(depth + 1);
      return fmt::format("map<{}, {}>", key, next_type(depth + 1));
    }
    // A list holds a repeated group, which holds the element.
    if (is_list(node) && node.children == 1 && peek().repetition == kRepeated) {
      if (peek().children != 1) return next_type(depth + 1);
      take();
      return "list<" + next_type(depth + 1) + ">";
    }
    std::string fields;
    for (std::int64_t i = 0; i < node.children; ++i) {
      const std::string& name = peek().name;
      fields += (i == 0 ? "" : ", ") + name + ": ";
      fields += next_type(depth + 1);
    }
    return "struct<" + fields + ">";
  }

  const std::vector<ParquetNode>& nodes_;
  std::size_t next_ = 0;
  std::size_t leaves_ = 0;
};

}  // namespace

std::vector<ParquetField> parquet_fields(const std::vector<ParquetNode>& nodes, std::size_t& leaves) {
  ParquetTree tree(nodes);
  std::vector<ParquetField> fields;
  const std::int64_t columns = tree.take().children;
  for (std::int64_t i = 0; i < columns; ++i) fields.push_back(tree.next_field());
  if (!tree.ended()) throw TableFault("its tree of columns has more than it announces");
  leaves = tree.leaves();
  return fields;
}

}  // namespace lockstep
