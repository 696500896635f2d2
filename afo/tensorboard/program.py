"""TensorBoard with the plugins that read event files and nothing else.

Others read what a file beside those names, as the projector does, or are whatever is installed. Run by its path, by an
interpreter with TensorBoard that need not have afo.
"""

import sys

#: By the names that they have in TensorBoard's addresses.
PLUGINS = frozenset({
    "audio", "custom_scalars", "distributions", "graphs", "histograms", "hparams", "images", "mesh", "pr_curves",
    "scalars", "text", "timeseries",
})  # fmt: skip


def main() -> None:
    """Serve as `tensorboard` does with the same arguments."""
    from absl import app
    from tensorboard import default, main_lib, program
    from tensorboard.plugins.core.core_plugin import CorePluginLoader

    plugins = [
        plugin
        for plugin in default.get_static_plugins()
        if isinstance(plugin, CorePluginLoader) or getattr(plugin, "plugin_name", "") in PLUGINS
    ]
    main_lib.global_init()
    tensorboard = program.TensorBoard(plugins=plugins)
    app.run(tensorboard.main, flags_parser=tensorboard.configure)


if __name__ == "__main__":
    try:
        main()
    except ModuleNotFoundError as error:
        sys.exit(str(error))
