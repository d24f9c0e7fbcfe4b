package schemas

import "time"

// PackageKind is where a package comes from.
type PackageKind string

// The kinds. A Bundle is an uploaded .mcpb or .dxt file.
const (
	NPM    PackageKind = "npm"
	Pip    PackageKind = "pip"
	Git    PackageKind = "git"
	Bundle PackageKind = "mcpb"
)

// Package is what a person wants installed in their sandbox.
type Package struct {
	Kind    PackageKind
	Spec    string   // npm: name[@version or tag] · pip: name[extras][==version] · git: https://host/path[#branch, tag or commit]
	Name    string   // the server's name, ValidName; "" = taken from the package
	Program string   // which of the package's programs to start; "" = the only one, or the one named like the package
	Args    []string // for the program, after what starts it
	// Start is a command and its arguments that are started in place of one of the package's programs; nil = none. The command
	// is a name on the sandbox's search path, an absolute path, or a path relative to the folder. No shell reads it.
	Start   []string
	Scripts bool // the package's own install and build scripts may run; they are a stranger's code, run at once
}

// PackagePlan is what Confirm would install, all of it known before anything is. It lives in memory.
type PackagePlan struct {
	Spec       Package // Name is filled in
	Package    string
	Version    string    // exact; of git the commit
	Integrity  string    // npm: sha512-… of the package · pip: sha256:… of the wheel · git: the commit · mcpb: sha256:… of the file
	License    string    // as the package says, cleaned; "" = unknown
	Deprecated string    // why it should no longer be used; "" = not deprecated, or unknown
	Published  time.Time // zero = unknown
	Packages   int       // how many packages are installed, where that is known; 0 = unknown
	Folder     string    // /workspace/external-mcp/<slug>, or <slug>-2 and so on where that is taken
	Commands   [][]string
	Scripts    []string // install and build scripts that the package brings, as "postinstall: node x.js"
	Must       bool     // it cannot be installed without its scripts: CodeAsk unless Spec.Scripts
	Env        []string // names of environment variables that the package documents
	Inputs     []Input  // of a bundle: values to ask for
	Optional   []string // ids of Inputs that may be left empty
	Server     Server   // what will be started
	Notes      []Note   // for the card
	Work       any      // the installer's own, carried along
}

// PackageLog is how an installation went.
type PackageLog struct {
	Text   string // what the commands said, cleaned; the last 64 KiB
	Server Server // the definition that starts what was installed; zero when it failed
	Notes  []Note
}

// PackageRecord is what was installed in a folder, kept in the folder itself, so that it lives and dies with it. Programs in the
// sandbox can change it: it is read as a stranger's text, and nothing is trusted because of it.
type PackageRecord struct {
	Kind      PackageKind `json:"kind"`
	Spec      string      `json:"spec"`
	Program   string      `json:"program,omitempty"`
	Package   string      `json:"package"`
	Version   string      `json:"version"`
	Integrity string      `json:"integrity"`
	Env       []string    `json:"env,omitempty"`
	Own       bool        `json:"own,omitempty"`     // it is started by a command of the person's own
	Scripts   bool        `json:"scripts,omitempty"` // they were allowed
	Brought   []string    `json:"brought,omitempty"` // the scripts that it brought
}

// PackageUpgrade is a newer version of what a definition starts. Nothing of the old one is touched: install the Plan, which has a
// folder of its own, approve and connect its Server, and only then uninstall the old definition.
type PackageUpgrade struct {
	From       PackageRecord
	Plan       PackagePlan
	Same       bool     // there is nothing newer
	NewEnv     []string // documented names that the old version did not have
	NewScripts []string // install and build scripts that the old version did not have
}
