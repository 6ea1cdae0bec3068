// Starts `kernel-lint server` and connects VS Code to it. Findings, quick fixes, hovers and code lenses all
// come from the server.
"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

function serverCommand() {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";
  const words = vscode.workspace.getConfiguration("kernel-lint").get("command");
  return words.map((word) => word.replaceAll("${workspaceFolder}", folder));
}

async function start() {
  const [command, ...args] = serverCommand();
  const selector = [
    { scheme: "file", language: "python" },
    { scheme: "untitled", language: "python" },
  ];
  client = new LanguageClient("kernel-lint", "kernel-lint", { command, args }, { documentSelector: selector });
  try {
    await client.start();
  } catch (error) {
    const action = "Open settings";
    const text = `kernel-lint: ${command} did not start (${error.message}). Is kernel-lint[lsp] installed there?`;
    const chosen = await vscode.window.showErrorMessage(text, action);
    if (chosen === action) {
      await vscode.commands.executeCommand("workbench.action.openSettings", "kernel-lint.command");
    }
  }
}

async function stop() {
  const running = client;
  client = undefined;
  if (running?.isRunning()) {
    await running.stop();
  }
}

function onThisFile(command) {
  return async () => {
    const document = vscode.window.activeTextEditor?.document;
    if (!client?.isRunning() || !document) {
      return;
    }
    await document.save();
    await vscode.commands.executeCommand(command, document.uri.toString());
  };
}

exports.activate = async (context) => {
  context.subscriptions.push(
    vscode.commands.registerCommand("kernel-lint.restart", async () => {
      await stop();
      await start();
    }),
    vscode.commands.registerCommand("kernel-lint.packageFile", onThisFile("kernel-lint.package")),
    vscode.commands.registerCommand("kernel-lint.verifyFile", onThisFile("kernel-lint.verify")),
    vscode.workspace.onDidChangeConfiguration(async (event) => {
      if (event.affectsConfiguration("kernel-lint.command")) {
        await vscode.commands.executeCommand("kernel-lint.restart");
      }
    }),
  );
  await start();
};

exports.deactivate = stop;
