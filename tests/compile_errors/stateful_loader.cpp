// error: a loader of a stateful dataset (ChunkDataset) cannot be prepared
struct Stream : torch::data::datasets::StatefulDataset<Stream, std::vector<torch::data::Example<>>> {
  void reset() override {}
  decltype(std::declval<const torch::data::datasets::TensorDataset&>().size()) size() const override { return {}; }
  decltype(std::declval<Stream::StatefulDataset&>().get_batch(1)) get_batch(std::size_t) override { return {}; }
  void save(torch::serialize::OutputArchive&) const override {}
  void load(torch::serialize::InputArchive&) override {}
};
int main() {
  auto loader = torch::data::make_data_loader(Stream());
  lockstep::Accelerator accelerator;
  auto [prepared] = accelerator.prepare(*loader);
}
