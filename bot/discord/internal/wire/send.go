package wire

import "encoding/json"

// Limits of Discord's API; lengths are in UTF-16 code units as Discord counts, which is never less than characters.
const (
	MaxContent     = 2000     // of a plain message
	MaxText        = 4000     // of all text displays of a Components V2 message
	MaxComponents  = 40       // of a Components V2 message, nested ones included
	MaxBytes       = 9 << 10  // of a Components V2 message's text in UTF-8; more than about 10 KB is answered with 500
	MaxFiles       = 10       // of a message
	MaxButtons     = 5        // in a row
	MaxOptions     = 25       // of a select menu, a command, or an autocompletion
	MaxButtonLabel = 80       //
	MaxOptionText  = 100      // label, value or description of a select option; name or value of a choice
	MaxCustomID    = 100      //
	MaxLink        = 512      // URL of a link button
	MaxTitle       = 45       // of a modal; also a Label's
	MaxModalFields = 5        //
	MaxInput       = 4000     // of a text input
	MaxCommandText = 8000     // of a command with all its options and the longest localisation of each
	MaxUpload      = 10 << 20 // bytes of a file where the interaction names no limit
	MaxRequest     = 25 << 20 // bytes of a request with files
)

// Message flags.
const (
	SuppressEmbeds = 1 << 2
	Ephemeral      = 1 << 6
	ComponentsV2   = 1 << 15
)

// Component types.
const (
	ActionRow    = 1
	Button       = 2
	StringSelect = 3
	TextInput    = 4
	TextDisplay  = 10
	FileDisplay  = 13
	Separator    = 14
	Container    = 17
	Label        = 18
	FileUpload   = 19
)

// Button and text input styles.
const (
	Primary   = 1
	Secondary = 2
	Danger    = 4
	Link      = 5

	Short     = 1
	Paragraph = 2
)

// Component is any component that the door sends; which fields count depends on Type.
type Component struct {
	Type        int            `json:"type"`
	CustomID    string         `json:"custom_id,omitempty"`
	Style       int            `json:"style,omitempty"`
	Label       string         `json:"label,omitempty"`
	Description string         `json:"description,omitempty"`
	URL         string         `json:"url,omitempty"`
	Disabled    bool           `json:"disabled,omitempty"`
	Content     string         `json:"content,omitempty"`
	Components  []Component    `json:"components,omitempty"`
	Component   *Component     `json:"component,omitempty"`
	Options     []SelectOption `json:"options,omitempty"`
	Placeholder string         `json:"placeholder,omitempty"`
	MinValues   *int           `json:"min_values,omitempty"`
	MaxValues   *int           `json:"max_values,omitempty"`
	Value       string         `json:"value,omitempty"`
	MaxLength   int            `json:"max_length,omitempty"`
	Required    *bool          `json:"required,omitempty"`
	File        *Media         `json:"file,omitempty"`
	Accent      *int           `json:"accent_color,omitempty"`
	Divider     *bool          `json:"divider,omitempty"`
	Spacing     int            `json:"spacing,omitempty"`
}

// SelectOption is one line of a select menu.
type SelectOption struct {
	Label       string `json:"label"`
	Value       string `json:"value"`
	Description string `json:"description,omitempty"`
	Default     bool   `json:"default,omitempty"`
}

// Media refers to an attachment of the same message: attachment://name.
type Media struct {
	URL string `json:"url"`
}

// Mentions is what a message may ping; it is sent with every message and edit, and its zero value pings nobody.
type Mentions struct {
	Parse       []string `json:"parse"` // always empty, never null
	Users       []string `json:"users,omitempty"`
	RepliedUser bool     `json:"replied_user"`
}

// Outgoing is a message to send or an edit. Content, Components and Attachments are always written, so that an edit clears what is
// gone; Files go along as multipart.
type Outgoing struct {
	Content     string      `json:"content"`
	Components  []Component `json:"components"`
	Attachments []Attached  `json:"attachments"` // describes Files by index; an edit drops files that are not named
	Flags       int         `json:"flags,omitempty"`
	Mentions    Mentions    `json:"allowed_mentions"`
	Nonce       string      `json:"nonce,omitempty"` // of a message in a channel: makes a retry safe
	Enforce     bool        `json:"enforce_nonce,omitempty"`
	Reference   *Reference  `json:"message_reference,omitempty"`
	Files       []OutFile   `json:"-"`
}

// MarshalJSON writes lists as lists, never null, and for Components V2, which excludes it, the content as null.
func (o Outgoing) MarshalJSON() ([]byte, error) {
	type plain Outgoing
	if o.Components == nil {
		o.Components = []Component{}
	}
	if o.Attachments == nil {
		o.Attachments = []Attached{}
	}
	if o.Mentions.Parse == nil {
		o.Mentions.Parse = []string{}
	}
	if o.Flags&ComponentsV2 == 0 {
		return json.Marshal(plain(o))
	}
	return json.Marshal(struct {
		Content *string `json:"content"`
		plain
	}{nil, plain(o)})
}

// Reference names the message that is replied to.
type Reference struct {
	MessageID string `json:"message_id"`
	Soft      bool   `json:"fail_if_not_exists"` // false: send all the same
}

// Attached describes a file of the message; ID is its index in Files.
type Attached struct {
	ID          string `json:"id"`
	Filename    string `json:"filename"`
	Description string `json:"description,omitempty"` // alt text, at most 1024
}

// OutFile is the content of a file to send.
type OutFile struct {
	Name, MIME string
	Data       []byte
}

// Callback types (Discord, Interaction Callback Type).
const (
	CallbackPong         = 1
	CallbackMessage      = 4
	CallbackDefer        = 5
	CallbackDeferUpdate  = 6
	CallbackUpdate       = 7
	CallbackAutocomplete = 8
	CallbackModal        = 9
)

// Callback is the first answer to an interaction; exactly one of the pointers is set, or Flags for a deferral.
type Callback struct {
	Type    int
	Flags   int // of CallbackDefer: Ephemeral or 0
	Message *Outgoing
	Modal   *Modal
	Choices []Choice
}

// Modal is a form of at most five fields.
type Modal struct {
	CustomID   string      `json:"custom_id"`
	Title      string      `json:"title"`
	Components []Component `json:"components"`
}

// Choice is one suggestion of an autocompletion, or one of an option.
type Choice struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Command is an application command or, nested, one of its options.
type Command struct {
	Name             string            `json:"name"`
	NameLocal        map[string]string `json:"name_localizations,omitempty"`
	Description      string            `json:"description"`
	DescriptionLocal map[string]string `json:"description_localizations,omitempty"`
	Type             int               `json:"type"`
	Options          []Command         `json:"options,omitempty"`
	Required         bool              `json:"required,omitempty"`
	Autocomplete     bool              `json:"autocomplete,omitempty"`
	Choices          []Choice          `json:"choices,omitempty"`
	MaxLength        int               `json:"max_length,omitempty"`
	FileTypes        []string          `json:"file_types,omitempty"` // of an attachment option, such as ".json"
	IntegrationTypes []int             `json:"integration_types,omitempty"`
	Contexts         []int             `json:"contexts,omitempty"`
}

// Command and option types.
const (
	ChatInput = 1

	SubCommand       = 1
	SubCommandGroup  = 2
	StringOption     = 3
	AttachmentOption = 11
)

// Sent is what Discord says of a message that it took.
type Sent struct {
	ID        string `json:"id"`
	ChannelID string `json:"channel_id"`
	Flags     int    `json:"flags"`
}
